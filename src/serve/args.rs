// SPDX-License-Identifier: MIT OR Apache-2.0
//! `serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use crate::model::group::By;
use crate::model::stage::StageSet;
use crate::settings::{ExtraEvents, Histograms, Mode, Settings};
use anyhow::Result;
use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};

use crate::run::args::common::{
    Checked, SessionArgs, SessionOptions, WITH_FILTERS, interval, number,
};

const EXAMPLES: &str = "\
Examples:
  nvme-deep serve
      http://127.0.0.1:9998/metrics
  nvme-deep serve --stages --textfile /var/lib/node_exporter/nvme-deep.prom
      To a file for node_exporter, with stages";

/// Without `--listen`.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9998);

/// Parses an address or a host name with a port, or a port of this machine.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(DEFAULT_ADDRESS.ip(), port));
    }
    let found: Vec<SocketAddr> = text.to_socket_addrs().into_iter().flatten().collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| {
        format!("`{text}` is not an address and a port: give them as in {DEFAULT_ADDRESS}, [::1]:9998 or 9998")
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
#[command(mut_arg("since", |arg| arg.hide(true)), mut_arg("until", |arg| arg.hide(true)))]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct ServeArgs {
    /// Serve http://ADDRESS/metrics [default: 127.0.0.1:9998]
    ///
    /// A host name is fine, and a port alone is a port of 127.0.0.1. There is no encryption and no password:
    /// an address other than a loopback address is open to the network.
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
          default_value = "none", hide_default_value = true, default_missing_value = "basic")]
    pub stages: StageSet,

    /// Metrics by cgroup or container
    ///
    /// Instead of those by controller, namespace and opcode. The busiest groups have series, the rest is
    /// `other`. A group without a command for ten minutes loses its series.
    #[arg(long, value_name = "KEY", value_parser = PossibleValuesParser::new(["cgroup", "container"])
          .try_map(|key| key.parse::<By>()))]
    pub by: Option<By>,

    /// Maximum number of groups with their own series
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "100", requires = "by",
          value_parser = number(1..=250_usize))]
    pub groups: usize,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type ServeOptions = Checked<ServeArgs>;

impl SessionOptions for ServeArgs {
    fn settings(&self) -> Result<Settings> {
        let histograms = match self.by {
            None => Histograms { extra: ExtraEvents::CountErrors, ..Histograms::default() },
            Some(by) => Histograms { by: vec![by], ..Histograms::default() },
        };
        self.session.settings(false, Mode::Histograms(histograms), self.stages)
    }
}

impl ServeArgs {
    /// The address of the HTTP server.
    pub fn address(&self) -> SocketAddr {
        self.listen.unwrap_or(DEFAULT_ADDRESS)
    }
}
