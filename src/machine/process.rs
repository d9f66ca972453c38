// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that serve NVMe: what they are, and reads of their memory. Nothing is written to them.

use super::System;
use crate::error::{Failure, Kind};
use crate::model::target::TargetKind;
use crate::model::text::{Text, printable};
use anyhow::{Error, Result};
use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open as open_path, openat, openat2,
};
use rustix::process::geteuid;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Bytes behind a controller's address in which its identity is looked for.
const CONTROLLER: usize = 64 << 10;
/// Model number of QEMU's controllers, in the Identify data.
const MODEL: &[u8] = b"QEMU NVMe Ctrl";
/// Bytes of a serial number, which is before the model number.
const SERIAL: usize = 20;

/// The prefix of QEMU's programs.
const QEMU: &str = "qemu-system-";
/// Most arguments of a command line that are kept.
const MOST_ARGS: usize = 1 << 14;
/// Bytes of a command line that are read. The kernel allows 6 MB at the start; later a process can make it
/// longer.
const MAX_ARGS: u64 = 8 << 20;

/// What to do if the kernel does not let this process look at another.
fn permission() -> &'static str {
    if geteuid().is_root() {
        "this root lacks CAP_SYS_PTRACE (a container?), or a security module forbids it"
    } else {
        "run as root (sudo)"
    }
}

/// Why the kernel does not let this process look at another.
fn not_visible(pid: u32, error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => {
            let text = format!(
                "there is no process {pid}; `nvme-deep host list` shows those that serve NVMe"
            );
            Failure::error(Kind::Usage, text)
        }
        _ => {
            let text = format!("process {pid} can't be looked at ({error}): {}", permission());
            Failure::error(Kind::Privilege, text)
        }
    }
}

/// Why a file cannot be read as an executable.
pub fn unreadable(path: &Path, error: &str) -> Error {
    let text = format!("{} can't be read as an executable ({error})", printable(path));
    Failure::error(Kind::Usage, text)
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// A path by which its executable can be read, also if the file was replaced.
    pub exe: PathBuf,
    /// The path of its executable.
    pub name: Text,
    /// Its arguments.
    pub args: Vec<String>,
}

impl Process {
    /// Looks at a process.
    ///
    /// # Errors
    /// If there is no such process, or this one may not look at it.
    pub fn at(system: &System, pid: u32) -> Result<Self> {
        Self::of(system, pid, |_| true)
    }

    /// Looks at a process, and at its arguments if `has_arguments` accepts its program.
    fn of(system: &System, pid: u32, has_arguments: impl Fn(&str) -> bool) -> Result<Self> {
        let exe = system.path(&format!("proc/{pid}/exe"));
        let name = fs::read_link(&exe).map_err(|error| not_visible(pid, &error))?;
        let mut process = Self { pid, exe, name: Text::from_os(&name), args: Vec::new() };
        if has_arguments(process.program()) {
            let args = read_some(&system.path(&format!("proc/{pid}/cmdline")), MAX_ARGS);
            let args = args.unwrap_or_default();
            let words = args.split(|&b| b == 0).filter(|word| !word.is_empty());
            let words = words.take(MOST_ARGS);
            process.args = words.map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        }
        Ok(process)
    }

    /// All processes that this one may look at, one after the other. Only QEMU's have arguments:
    /// anybody may start processes with large ones.
    pub fn all(system: &System) -> impl Iterator<Item = Self> {
        let entries = fs::read_dir(system.path("proc")).into_iter().flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        pids.into_iter().filter_map(|pid| Self::of(system, pid, |name| name.starts_with(QEMU)).ok())
    }

    /// The name of the executable without its directory.
    pub fn program(&self) -> &str {
        let name = self.name.trim_end_matches(" (deleted)");
        name.rsplit('/').next().unwrap_or_default()
    }

    /// The NVMe controllers on QEMU's command line, each with its serial number, if it has one there.
    pub fn nvme_serials(&self) -> Vec<Option<String>> {
        let devices = self.args.iter().filter(|arg| is_controller(arg));
        let devices = devices.map(|device| {
            let serial = device.split(',').find_map(|part| part.strip_prefix("serial="));
            serial.map(ToOwned::to_owned)
        });
        devices.collect()
    }

    /// The target that it is: QEMU with an NVMe controller on its command line, or SPDK by its name.
    pub fn kind(&self) -> Option<TargetKind> {
        let program = self.program();
        if ["nvmf_tgt", "spdk_tgt"].contains(&program) {
            return Some(TargetKind::Spdk);
        }
        let is_qemu = program.starts_with(QEMU) && self.args.iter().any(|arg| is_controller(arg));
        is_qemu.then_some(TargetKind::Qemu)
    }
}

/// Whether an argument of QEMU is an NVMe controller.
fn is_controller(arg: &str) -> bool {
    let device = arg.split(',').next().unwrap_or_default();
    device == "nvme" || arg.contains("\"driver\":\"nvme\"")
}

/// The memory of a process, for reading.
#[derive(Debug)]
pub struct Memory {
    pid: u32,
    file: File,
    stat: PathBuf,
    /// Start of the process in clock ticks: its id may be used again.
    started: Option<String>,
}

/// The start time of a process: field 22 of its stat.
fn start_of(stat: &PathBuf) -> Option<String> {
    let text = fs::read_to_string(stat).ok()?;
    // the name, in brackets, may contain anything
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split(' ').nth(19)?.to_owned())
}

impl Memory {
    /// Opens the memory. The kernel allows it to those who may trace the process.
    ///
    /// # Errors
    /// If it does not, or there is no such process.
    pub fn open(system: &System, pid: u32) -> Result<Self> {
        let file = File::open(system.path(&format!("proc/{pid}/mem")));
        let file = file.map_err(|error| not_visible(pid, &error))?;
        let stat = system.path(&format!("proc/{pid}/stat"));
        let started = start_of(&stat);
        Ok(Self { pid, file, stat, started })
    }

    /// Fails if the process has ended.
    ///
    /// # Errors
    /// If it has.
    pub fn alive(&self) -> Result<()> {
        if start_of(&self.stat) != self.started {
            let text = format!("process {} has ended: the records end there", self.pid);
            return Err(Failure::error(Kind::Run, text));
        }
        Ok(())
    }

    /// Fills `bytes` as far as there is memory at this address. Returns the number of bytes.
    fn fill(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut read = 0;
        for page in bytes.chunks_mut(4096) {
            let at = address.wrapping_add(read as u64);
            if self.file.read_exact_at(page, at).is_err() {
                break;
            }
            read += page.len();
        }
        read
    }

    /// The serial number of the NVMe controller at this address. `None` if there is none.
    pub fn nvme_serial(&self, address: u64) -> Option<String> {
        let mut bytes = vec![0; CONTROLLER];
        // the memory may end behind the controller
        let read = self.fill(address, &mut bytes);
        serial_in(&bytes[..read])
    }
}

/// The serial number before the model number, if it is text.
fn serial_in(bytes: &[u8]) -> Option<String> {
    let at = bytes.windows(MODEL.len()).position(|w| w == MODEL)?;
    let serial = str::from_utf8(bytes.get(at.checked_sub(SERIAL)?..at)?).ok()?;
    let serial = serial.trim_end_matches([' ', '\0']);
    let is_text = !serial.is_empty() && serial.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    is_text.then(|| serial.to_owned())
}

// Other users' processes name these files. Such a name may lead to a pipe, a device, or a file of any size,
// and to another file at each look.

/// Largest executable or library that is read, in bytes: all of it is in memory. QEMU with debug
/// information has some 200 MB.
pub const MAX_BINARY: u64 = 512 << 20;

const HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A path by which this process can open the file of a descriptor again, whatever has its name now.
pub fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Opens a regular file that was found without opening it: to open a device can have effects, and to
/// open a pipe can take forever.
fn regular(handle: &OwnedFd) -> io::Result<File> {
    let mode = fstat(handle)?.st_mode;
    if FileType::from_raw_mode(mode) != FileType::RegularFile {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(open_path(path, flags, Mode::empty())?.into())
}

/// Opens a regular file. Links are followed: in procfs they lead to the process's file.
///
/// # Errors
/// If it is not a regular file, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    regular(&openat(CWD, path, HANDLE, Mode::empty())?)
}

/// Opens a regular file below another root directory, which no link leaves.
///
/// # Errors
/// As [`open`], or if the kernel cannot do so (before 5.6).
pub fn open_below(root: &Path, path: &Path) -> io::Result<File> {
    let root = openat(CWD, root, HANDLE | OFlags::DIRECTORY, Mode::empty())?;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    regular(&openat2(&root, path, HANDLE, Mode::empty(), within)?)
}

/// Reads at most this many bytes of a file. The size that the file claims reserves no memory.
///
/// # Errors
/// If the file has more, or cannot be read.
pub fn read(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let too_large = || {
        let text = format!("it is larger than {} MiB", most >> 20);
        io::Error::new(ErrorKind::FileTooLarge, text)
    };
    if file.metadata()?.len() > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large());
    }
    Ok(bytes)
}

/// Reads a file of procfs, whose size is 0 and whose text a process can make as long as it likes.
/// What is beyond this many bytes is left out.
///
/// # Errors
/// If it cannot be read.
pub fn read_some(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Bytes that the maps of a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapMemory {
    /// What they take at most, unless the slots alone need more.
    pub usual: usize,
    /// What the slots take at most.
    pub most: usize,
}

/// The usual part of the memory, and the least number of bytes.
const PART: u64 = 400;
const LEAST: u64 = 64 << 20;
/// The largest part of the memory.
const LARGEST: u64 = 16;

impl MapMemory {
    /// For a machine with this much memory, in a cgroup with this limit.
    pub fn of(total: u64, limit: Option<u64>) -> Self {
        let half = limit.map_or(u64::MAX, |limit| limit / 2);
        let usual = (total / PART).max(LEAST);
        let most = (total / LARGEST).max(usual);
        let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        // a third of half the limit is left for the cells
        Self { usual: bytes(usual.min(half)), most: bytes(most.min(half / 3 * 2)) }
    }
}

impl System {
    /// How much memory the maps of a run may take here.
    pub fn map_memory(&self) -> MapMemory {
        MapMemory::of(self.total_memory().unwrap_or(0), self.cgroup_memory())
    }

    fn total_memory(&self) -> Option<u64> {
        let text = fs::read_to_string(self.path("proc/meminfo")).ok()?;
        let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// The least limit of the cgroups of this process.
    fn cgroup_memory(&self) -> Option<u64> {
        let text = fs::read_to_string(self.path("proc/self/cgroup")).ok()?;
        let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let top = self.cgroups()?;
        let dirs = top.join(own);
        let dirs = dirs.ancestors().take_while(|dir| dir.starts_with(&top));
        let limit = |dir| fs::read_to_string(dir).ok()?.trim().parse::<u64>().ok();
        dirs.filter_map(|dir| limit(dir.join("memory.max"))).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;
    use rustix::fs::mknodat;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_serial_number_is_before_the_model() {
        let mut bytes = vec![1; 100];
        bytes.extend(format!("{:<20}{:<40}", "SER0", "QEMU NVMe Ctrl").bytes());
        assert_eq!(serial_in(&bytes), Some("SER0".into()));
        assert_eq!(serial_in(&bytes[..130]), None);
        bytes[100] = 7;
        assert_eq!(serial_in(&bytes), None);
        assert_eq!(serial_in(MODEL), None);
    }

    /// Anybody may start a process with large arguments.
    #[test]
    fn only_qemu_is_read_with_its_arguments() {
        let machine = TestMachine::new(&[]);
        for (pid, program) in [(7, "/bin/sleep"), (8, "/usr/bin/qemu-system-x86_64")] {
            machine.put(&format!("proc/{pid}/cmdline"), &"a\0b\0".repeat(MOST_ARGS));
            symlink(program, machine.path(&format!("proc/{pid}/exe"))).unwrap();
        }
        let all: Vec<usize> = Process::all(&machine).map(|p| p.args.len()).collect();
        assert_eq!(all, [0, MOST_ARGS]);
        assert_eq!(Process::at(&machine, 7).unwrap().args.len(), MOST_ARGS);
    }

    #[test]
    fn the_command_line_shows_a_controller() {
        for (args, serials) in [
            (&["-device", "nvme,serial=a"][..], &[Some("a")][..]),
            (&["-device", "nvme,serial=a", "-device", "nvme,id=b"], &[Some("a"), None]),
            (&["-device", "{\"driver\":\"nvme\",\"id\":\"a\"}"], &[None]),
            (&["-device", "nvme-ns,drive=a"], &[]),
            (&["-drive", "file=nvme,if=virtio"], &[]),
        ] {
            let qemu = Process {
                pid: 1,
                exe: PathBuf::new(),
                name: "/usr/bin/qemu-system-x86_64 (deleted)".into(),
                args: args.iter().map(|&a| a.into()).collect(),
            };
            let found = qemu.nvme_serials();
            assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), serials);
            assert_eq!(qemu.kind().is_some(), !serials.is_empty());
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_opening_it() {
        let files = TestMachine::new(&[("file", "text")]);
        let [pipe, link] = ["pipe", "link"].map(|name| files.path(name));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        symlink("/dev/zero", &link).unwrap();
        for path in [&pipe, &link, &files.path("")] {
            let error = open(path).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
        assert_eq!(read(&open(&files.path("file")).unwrap(), 4).unwrap(), b"text");
    }

    #[test]
    fn a_file_of_any_size_takes_no_more_than_the_bound() {
        let files = TestMachine::new(&[]);
        let path = files.path("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read(&open(&path).unwrap(), 1 << 20).unwrap_err();
        assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
        assert_eq!(read_some(Path::new("/dev/zero"), 10).unwrap().len(), 10);
    }

    #[test]
    fn no_link_leaves_another_root() {
        let files = TestMachine::new(&[("outside", "secret"), ("root/inside", "text")]);
        let root = files.path("root");
        fs::create_dir(root.join("lib")).unwrap();
        symlink("/inside", root.join("lib/a.so")).unwrap();
        symlink("../../outside", root.join("lib/b.so")).unwrap();
        symlink(files.path("outside"), root.join("lib/c.so")).unwrap();
        let a = open_below(&root, Path::new("/lib/a.so"));
        assert_eq!(read(&a.unwrap(), 10).unwrap(), b"text");
        for name in ["/lib/b.so", "/lib/c.so", "/../outside"] {
            assert!(open_below(&root, Path::new(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn maps_take_a_part_of_the_memory_and_half_of_a_cgroups() {
        for (gib, limit_mib, want) in [
            (0_u64, None::<u64>, [64, 64]),
            (4, None, [64, 256]),
            (256, None, [655, 16384]),
            (256, Some(1024), [512, 341]),
            (4, Some(96), [48, 32]),
        ] {
            let memory = MapMemory::of(gib << 30, limit_mib.map(|mib| mib << 20));
            assert_eq!([memory.usual >> 20, memory.most >> 20], want, "{gib} {limit_mib:?}");
        }
        assert_eq!(TestMachine::new(&[]).map_memory(), MapMemory::of(0, None));
        // the least limit of the cgroups of this process counts
        let machine = TestMachine::new(&[
            ("proc/meminfo", "MemTotal:       16384000 kB\nMemFree: 1 kB\n"),
            ("proc/mounts", "c /cg cgroup2 rw 0 0\n"),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("cg/a/memory.max", "268435456"),
            ("cg/a/b/memory.max", "max"),
        ]);
        assert_eq!(machine.map_memory(), MapMemory::of(16_384_000 << 10, Some(256 << 20)));
    }
}
