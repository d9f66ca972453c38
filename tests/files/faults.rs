// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output files where a system call fails, as on other file systems.

use std::fs;

use libc::{EACCES, EINVAL, EIO, ENOSYS, SYS_fsync, SYS_rename, SYS_renameat, SYS_renameat2};
use tempfile::TempDir;

use super::filter::run_with;
use super::names;
use crate::binary::run;

const EXPORT: &str = "export tests/recordings/6.12.nvd --format csv -o";
const IMPORT: &str = "import tests/host/qemu.log -o";

#[test]
fn a_complete_file_that_gets_no_name_stays_beside_it() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("out");
    let renames = [SYS_renameat2, SYS_renameat, SYS_rename];
    for (says, failing, force) in [
        ("Permission denied", renames.map(|call| (call, EACCES)), "--force"),
        ("Permission denied", renames.map(|call| (call, EACCES)), ""),
        ("Input/output error", [(SYS_fsync, EIO); 3], ""),
    ] {
        let ran = run_with(&format!("{IMPORT} {} {force}", path.display()), &failing);
        let says = format!("{} can't be written ({says}", path.display());
        ran.refuses(1, &says);
        assert!(ran.err.contains(&format!("stays {}.partial", path.display())), "{}", ran.err);
        assert_eq!(names(&dir), ["out.partial"]);
        let ran = run(&format!("host trace --from {}.partial", path.display()));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        fs::remove_file(dir.path().join("out.partial")).unwrap();
    }
}

#[test]
fn file_systems_that_can_do_less_are_written_to() {
    for failing in [(SYS_renameat2, EINVAL), (SYS_renameat2, ENOSYS), (SYS_fsync, EINVAL)] {
        let dir = TempDir::new().unwrap();
        let words = format!("{EXPORT} {}/out", dir.path().display());
        let ran = run_with(&words, &[failing]);
        assert_eq!(ran.code, Some(0), "{failing:?}: {}", ran.err);
        assert_eq!(names(&dir), ["out"], "{failing:?}");
        run_with(&words, &[failing]).refuses(2, "exists");
    }
}
