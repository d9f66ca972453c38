// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `serve` command: metrics for Prometheus, over HTTP or in a file.

pub(crate) mod args;
pub(crate) mod group_series;
mod http;
mod meter;
pub mod metrics;
mod textfile;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use crate::error::{Failure, Kind};
use crate::run::start::Session;
use anyhow::{Context, Result};

use self::http::{Answer, TIMEOUT};
use self::meter::Meter;
use self::textfile::Textfile;
use crate::run::drive::turns::Wake;
use crate::run::drive::{Live, Run, Step};
use crate::run::start::Preflight;
use crate::run::{eprint_note, say_ledger};
use crate::serve::args::ServeOptions;

/// How long a client waits for the loop, which may be busy with the kernel.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the metrics go.
enum Target {
    Http(TcpListener),
    File(Textfile, Duration),
}

/// A client that waits for metrics.
type Call = SyncSender<Arc<str>>;

fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let (kind, what) = match error.kind() {
            ErrorKind::AddrInUse => (Kind::Run, "another program uses it: give another port"),
            ErrorKind::PermissionDenied => (
                Kind::Privilege,
                "ports below 1024 need CAP_NET_BIND_SERVICE: give a higher one, or run it as root",
            ),
            ErrorKind::AddrNotAvailable => (
                Kind::Usage,
                "this machine has no such address: give one of its own, or 0.0.0.0 for all",
            ),
            _ => (Kind::Run, "give another address"),
        };
        Failure::error(kind, format!("can't listen on {address} ({error}): {what}"))
    })
}

impl Target {
    fn open(options: &ServeOptions) -> Result<Self> {
        Ok(match &options.textfile {
            None => Self::Http(bind(options.address())?),
            Some(path) => Self::File(Textfile::at(path)?, options.interval),
        })
    }
}

/// Returns what the server's threads call. They only pass messages to the loop, which reads the maps.
fn answer(calls: Sender<Call>, waker: Sender<Wake>) -> Arc<Answer> {
    Arc::new(move || {
        let (call, answer) = sync_channel(1);
        calls.send(call).ok()?;
        waker.send(Wake::Turn).ok()?;
        answer.recv_timeout(PATIENCE).ok()
    })
}

fn announce(target: &Target) -> Result<()> {
    let text = match target {
        Target::Http(listener) => {
            let address = listener.local_addr().context("no address")?;
            let open = if address.ip().is_loopback() {
                ""
            } else {
                ", open to the network without encryption and passwords"
            };
            format!("serving http://{address}/metrics{open}")
        }
        Target::File(_, interval) => format!("writing the file every {interval:?}"),
    };
    eprint_note(&text);
    Ok(())
}

/// Answers all waiting clients. The reply to one that has gone is dropped.
fn answer_all(calls: &Receiver<Call>, meter: &mut Meter, session: &Session) -> Result<()> {
    for call in calls.try_iter() {
        let _ = call.try_send(meter.text(session)?);
    }
    Ok(())
}

/// Answers clients, or writes the file.
struct Serving<'o> {
    options: &'o ServeOptions,
    meter: Meter,
    sends: Sends,
}

/// How the metrics are sent.
enum Sends {
    Http(Receiver<Call>),
    File {
        file: Textfile,
        interval: Duration,
        /// When the next one is due.
        next: Duration,
    },
}

impl Serving<'_> {
    fn tick(&mut self, run: &mut Run<'_>, now: Duration) -> Result<()> {
        let (session, meter) = (run.session().context("a session")?, &mut self.meter);
        match &mut self.sends {
            Sends::Http(calls) => answer_all(calls, meter, session)?,
            Sends::File { file, interval, next } => {
                if now >= *next {
                    file.replace(&meter.text(session)?)?;
                    *next = now + *interval;
                }
                run.wake_at(*next);
            }
        }
        Ok(())
    }

    fn read(mut self, run: &mut Run<'_>) -> Result<()> {
        loop {
            match run.next()? {
                Step::Tick { now, .. } => self.tick(run, now)?,
                Step::Ended => break,
                _ => {}
            }
        }
        say_ledger(&run.end()?.ledger, self.options.session.is_verbose());
        Ok(())
    }
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &ServeOptions) -> Result<()> {
    let target = Target::open(options)?;
    let ready = Preflight::check(&options.settings)?;
    let (system, waker) = (ready.system.clone(), ready.waker.clone());
    Live::new(ready, &options.settings, None).run(|run| {
        let session = run.session().context("a session")?;
        let mut meter = Meter::new(&options.settings, system.clone(), options.groups);
        announce(&target)?;
        let sends = match target {
            Target::Http(listener) => {
                let (sender, calls) = channel();
                http::start(listener, answer(sender, waker.clone()), TIMEOUT)
                    .context("failed to start the server's thread")?;
                Sends::Http(calls)
            }
            Target::File(file, interval) => {
                file.replace(&meter.text(session)?)?;
                Sends::File { file, interval, next: interval }
            }
        };
        Serving { options, meter, sends }.read(run)
    })
}
