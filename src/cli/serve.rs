// SPDX-License-Identifier: MIT OR Apache-2.0
//! `serve`.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::builder::PathBufValueParser;
use clap::builder::TypedValueParser;
use nvme_deep::session::settings::Also;
use nvme_deep::session::settings::Histograms;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Settings;

use super::examples;
use super::session::Checked;
use super::session::SessionArgs;
use super::session::SessionOptions;
use super::stages::StagesArg;
use super::stages::set_or_total;
use super::value::interval;

/// Without `--listen`.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9998);

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "`{text}` is not an address and a port: give them as in {DEFAULT_ADDRESS} or [::1]:9998"
        )
    })
}

fn textfile(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path.extension().is_some_and(|ending| ending == "prom") {
        true => Ok(path),
        false => Err("node_exporter does not read it: give a name that ends in .prom"),
    }
}

/// `serve`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::SERVE)]
pub struct ServeArgs {
    /// Serve http://ADDRESS/metrics [default: 127.0.0.1:9998]
    ///
    /// Without encryption and passwords: an address other than a loopback address is open to the
    /// network.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "textfile",
          value_parser = address)]
    pub listen: Option<SocketAddr>,

    /// Write the metrics to this file instead
    ///
    /// For node_exporter's textfile collector. An existing FILE is replaced, and removed at the end.
    /// Its name must end in `.prom`.
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(textfile))]
    pub textfile: Option<PathBuf>,

    /// How often to write the file
    #[arg(long, value_name = "TIME", default_value = "15s", requires = "textfile", value_parser = interval(
        Duration::from_secs(1), "is too short for a file: give at least 1s"))]
    pub interval: Duration,

    /// Add histograms of the stages
    ///
    /// Without a value, basic.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true,
          default_missing_value = "basic")]
    pub stages: Option<StagesArg>,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type ServeOptions = Checked<ServeArgs>;

impl SessionOptions for ServeArgs {
    fn settings(&self) -> Result<Settings> {
        let histograms = Histograms {
            also: Also::CountErrors,
            ..Histograms::default()
        };
        let stages = set_or_total(self.stages);
        self.session.settings(Mode::Histograms(histograms), stages)
    }
}

impl ServeArgs {
    /// The address of the HTTP server.
    pub fn address(&self) -> SocketAddr {
        self.listen.unwrap_or(DEFAULT_ADDRESS)
    }
}
