// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that other users' processes name: their executables and libraries. Such a name may lead to a
//! pipe, a device, or a file of any size, and to another file at each look.

use std::fs::File;
use std::io;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open as open_path, openat, openat2,
};

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
/// If it is none, or cannot be opened.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::mknodat;
    use tempfile::TempDir;

    #[test]
    fn what_is_no_regular_file_is_refused_without_opening_it() {
        let dir = TempDir::new().unwrap();
        let pipe = dir.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let link = dir.path().join("link");
        symlink("/dev/zero", &link).unwrap();
        for path in [&pipe, &link, &dir.path().to_owned()] {
            let error = open(path).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
        let file = dir.path().join("file");
        fs::write(&file, "text").unwrap();
        assert_eq!(read(&open(&file).unwrap(), 4).unwrap(), b"text");
    }

    #[test]
    fn a_file_of_any_size_takes_no_more_than_the_bound() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read(&open(&path).unwrap(), 1 << 20).unwrap_err();
        assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
        assert_eq!(read_some(Path::new("/dev/zero"), 10).unwrap().len(), 10);
    }

    #[test]
    fn no_link_leaves_another_root() {
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("lib")).unwrap();
        fs::write(dir.path().join("outside"), "secret").unwrap();
        fs::write(root.join("inside"), "text").unwrap();
        symlink("/inside", root.join("lib/a.so")).unwrap();
        symlink("../../outside", root.join("lib/b.so")).unwrap();
        symlink(dir.path().join("outside"), root.join("lib/c.so")).unwrap();
        let a = open_below(&root, Path::new("/lib/a.so"));
        assert_eq!(read(&a.unwrap(), 10).unwrap(), b"text");
        for name in ["/lib/b.so", "/lib/c.so", "/../outside"] {
            assert!(open_below(&root, Path::new(name)).is_err(), "{name}");
        }
    }
}
