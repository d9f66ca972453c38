// SPDX-License-Identifier: MIT OR Apache-2.0
//! `top` in a pseudo-terminal: every byte that it writes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use vt100::Parser;

use super::cases::Files;
use super::judge::{Findings, accuracy, evidence};
use super::strings::{FOREIGN_COLOURS, is_forbidden};

const ROWS: u16 = 40;
const COLUMNS: u16 = 120;
/// Time after which a screen is given up.
const LIMIT: Duration = Duration::from_secs(40);
/// Keys, and what is on the screen after them.
const KEYS: [(&str, &str); 4] =
    [("", "q quit"), ("\t", "slowest recent commands"), ("\t", "queues of"), ("?", "suspend")];

/// A terminal, and what has come from it.
struct Terminal {
    keys: File,
    chunks: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    screen: Parser,
}

impl Terminal {
    /// Reads until the screen has this text, or to the end. Returns whether it ended.
    fn until(&mut self, text: Option<&str>) -> bool {
        let end = Instant::now() + LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.chunks.recv_timeout(left) {
                Ok(chunk) => {
                    self.screen.process(&chunk);
                    self.bytes.extend(chunk);
                }
                Err(error) => return error == RecvTimeoutError::Disconnected,
            }
            let shown = self.screen.screen().contents();
            if text.is_some_and(|text| shown.contains(text)) {
                return false;
            }
        }
    }
}

/// A pseudo-terminal: the side of the keyboard, and that of the program.
fn terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, vec![]).unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size).unwrap();
    (File::from(master), slave)
}

/// The bytes of a run, in which each panel was shown.
fn run(files: &Files) -> Vec<u8> {
    let (keys, slave) = terminal();
    let end = || slave.try_clone().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nvme-deep"));
    command.args(["top", "100ms", "--from", &files.name]).current_dir(files.dir.path());
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env_remove("NO_COLOR");
    command.stdin(end()).stdout(end()).stderr(end());
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(slave);
    let (mut output, (sender, chunks)) = (keys.try_clone().unwrap(), channel());
    thread::spawn(move || {
        let mut chunk = [0; 1 << 16];
        while let Ok(n @ 1..) = output.read(&mut chunk) {
            if sender.send(chunk[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut terminal = Terminal {
        keys,
        chunks,
        bytes: vec![],
        screen: Parser::new(ROWS.try_into().unwrap(), COLUMNS.try_into().unwrap(), 0),
    };
    for (keys, text) in KEYS {
        terminal.keys.write_all(keys.as_bytes()).unwrap();
        terminal.until(Some(text));
        let screen = terminal.screen.screen().contents();
        if !screen.contains(text) {
            child.kill().unwrap();
            panic!("`{text}` is not on the screen: {}", screen.escape_debug());
        }
    }
    terminal.keys.write_all(b"q").unwrap();
    if !terminal.until(None) {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    terminal.bytes
}

/// Removes control sequences that move the cursor, set colours and modes: ESC, `[`, parameters, letter.
fn without_sequences(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(at);
        plain.push_str(before);
        let end = sequence[2..].find(|c: char| !c.is_ascii_digit() && !"?;:".contains(c));
        let letter =
            end.filter(|end| sequence[2 + end..].starts_with(|c: char| c.is_ascii_alphabetic()));
        let is_foreign = FOREIGN_COLOURS.iter().any(|foreign| sequence.starts_with(foreign));
        let skip = match letter {
            Some(end) if !is_foreign => 2 + end + 1,
            _ => {
                plain.push('\u{1b}');
                1
            }
        };
        rest = &sequence[skip..];
    }
    plain + rest
}

/// Runs it, and checks what it wrote.
pub fn judge(files: &Files, findings: &mut Findings) {
    let (bytes, planted) = (run(files), &files.planted);
    let text = String::from_utf8_lossy(&bytes);
    let plain = without_sequences(&text);
    let bad = plain.find(|c| c != '\r' && is_forbidden(c));
    if let Some(at) = bad {
        findings.add("top, on a terminal", "raw text", evidence(&plain, at, planted));
    }
    let forged = accuracy(&plain);
    let forged = forged.into_iter().find(|line| line.contains("exact: 1 commands"));
    if let Some(line) = forged {
        let evidence = line.escape_debug().to_string();
        findings.add("top, on a terminal", "another accuracy", evidence);
    }
}
