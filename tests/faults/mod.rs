// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output files where a system call fails: file systems without locks, links, or renames that replace
//! nothing; disks that take no more.

mod filter;

use std::fs;
use std::process::Command;

use libc::{
    EACCES, EINVAL, EIO, ENOLCK, ENOSPC, ENOSYS, EOPNOTSUPP, EPERM, EROFS, EWOULDBLOCK, SYS_flock,
    SYS_fsync, SYS_linkat, SYS_rename, SYS_renameat, SYS_renameat2,
};
use tempfile::TempDir;

use self::filter::run_with;
use super::binary::{BINARY, Ran, run};
use super::names;

const EXPORT: &str = "export tests/recordings/6.12.nvd --format csv -o";
const IMPORT: &str = "host import --qemu-log tests/host/qemu.log -o";

#[test]
fn a_file_system_without_locks_is_written_to() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("out");
    let words = format!("{EXPORT} {}", path.display());
    // the fault works: a lock of another process
    let says = "another process writes";
    run_with(&words, &[(SYS_flock, EWOULDBLOCK)]).refuses(2, says);
    for error in [ENOLCK, EOPNOTSUPP, EINVAL, ENOSYS] {
        let ran = run_with(&format!("{words} --force"), &[(SYS_flock, error)]);
        assert_eq!(ran.code, Some(0), "{error}: {}", ran.err);
        assert_eq!(names(&dir), ["out"]);
    }
}

#[test]
fn a_rename_that_fails_is_an_error_of_the_run() {
    let renames = [(SYS_renameat2, EACCES), (SYS_renameat, EACCES), (SYS_rename, EACCES)];
    for force in ["", "--force"] {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("out");
        let words = |of: &str| format!("{of} {} {force}", path.display());
        run_with(&words(EXPORT), &renames)
            .refuses(1, "out can't be replaced (Permission denied (os error 13)): nothing is kept");
        assert!(names(&dir).is_empty(), "{:?}", names(&dir));
        let says = format!("the recording stays {}.partial", path.display());
        run_with(&words(IMPORT), &renames).refuses(1, &says);
        assert_eq!(names(&dir), ["out.partial"]);
        let ran = run(&format!("host trace --from {}.partial", path.display()));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
}

#[test]
fn file_systems_that_rename_less_are_written_to() {
    for failing in [
        &[(SYS_renameat2, EINVAL)][..],
        &[(SYS_renameat2, ENOSYS)],
        &[(SYS_renameat2, EINVAL), (SYS_linkat, EPERM)],
    ] {
        let dir = TempDir::new().unwrap();
        let words = format!("{EXPORT} {}/out", dir.path().display());
        let ran = run_with(&words, failing);
        assert_eq!(ran.code, Some(0), "{failing:?}: {}", ran.err);
        assert_eq!(names(&dir), ["out"], "{failing:?}");
        run_with(&words, failing).refuses(2, "exists");
    }
}

#[test]
fn a_file_that_the_disk_does_not_take_is_an_error_of_the_run() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("out");
    for (error, advice) in [(EIO, "Write elsewhere"), (ENOSPC, "Make room, or write elsewhere")] {
        let broken = [(SYS_fsync, error)];
        let ran = run_with(&format!("{EXPORT} {}", path.display()), &broken);
        ran.refuses(1, &format!("nothing is kept. {advice}\n"));
        assert!(names(&dir).is_empty(), "{:?}", names(&dir));
        let words = format!("{IMPORT} {} --force", path.display());
        let ran = run_with(&words, &broken);
        ran.refuses(1, &format!("what the disk has of it is kept. {advice}\n"));
        assert_eq!(names(&dir), ["out"]);
        fs::remove_file(&path).unwrap();
    }
    // a file system that has nothing to wait for
    for error in [EINVAL, EOPNOTSUPP, EROFS] {
        let words = format!("{EXPORT} {} --force", path.display());
        let ran = run_with(&words, &[(SYS_fsync, error)]);
        assert_eq!(ran.code, Some(0), "{error}: {}", ran.err);
    }
}

/// A file on which another one is mounted, as containers do.
#[test]
fn a_mount_point_is_refused_before_the_run() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("out");
    fs::write(&path, "old").unwrap();
    let out = path.display();
    let script = format!(
        "mount --bind {out} {out} || exit 77; {BINARY} {EXPORT} {out} --force; code=$?; umount {out}; exit $code"
    );
    let ran = Ran::from(Command::new("unshare").args(["-m", "bash", "-c", &script]));
    if !matches!(ran.code, Some(0 | 2)) {
        eprintln!("not asked: to mount takes CAP_SYS_ADMIN: {}", ran.err);
        return;
    }
    ran.refuses(2, "can't be replaced (Device or resource busy (os error 16)): give another file");
    assert_eq!(names(&dir), ["out"]);
    assert_eq!(fs::read(&path).unwrap(), b"old");
}
