// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `serve`, checked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::model::untrusted::printable;
use nvme_deep::session::settings::Also;
use nvme_deep::session::settings::Histograms;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Settings;

use super::stage_set;
use super::usage;
use crate::cli::serve::ServeArgs;

/// Without `--listen`.
const DEFAULT_ADDRESS: &str = "127.0.0.1:9998";

/// Shortest time between two files.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Where the metrics go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To clients of an HTTP server on this address.
    Http(SocketAddr),
    /// To a file, at an interval.
    Textfile(PathBuf, Duration),
}

/// Options of `serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// Settings of the session.
    pub settings: Settings,
    /// Where the metrics go.
    pub output: Output,
}

fn address(text: &str) -> Result<SocketAddr> {
    text.parse().map_err(|_| {
        usage(format!(
            "`--listen {text}` is not an address and a port: give them as in {DEFAULT_ADDRESS} or \
             [::1]:9998"
        ))
    })
}

fn textfile(path: PathBuf, interval: Duration) -> Result<Output> {
    if path.extension().is_none_or(|e| e != "prom") {
        return Err(usage(format!(
            "`--textfile {}` is not read by node_exporter: give a name that ends in .prom",
            printable(&path)
        )));
    }
    if interval < MIN_INTERVAL {
        return Err(usage(format!(
            "`--interval {interval:?}` is too short for a file: give at least 1s"
        )));
    }
    Ok(Output::Textfile(path, interval))
}

impl TryFrom<ServeArgs> for ServeOptions {
    type Error = Error;

    fn try_from(args: ServeArgs) -> Result<Self> {
        let ServeArgs {
            listen,
            textfile: file,
            interval,
            stages,
            filter,
            attach,
        } = args;
        Ok(Self {
            settings: Settings {
                filter: filter.try_into()?,
                attaching: attach.into(),
                ..Mode::Histograms(Histograms {
                    also: Also::CountErrors,
                    ..Histograms::default()
                })
                .with(stage_set(stages))
            },
            output: match file {
                Some(path) => textfile(path, interval)?,
                None => Output::Http(address(listen.as_deref().unwrap_or(DEFAULT_ADDRESS))?),
            },
        })
    }
}
