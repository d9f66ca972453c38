// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of output files.

use super::*;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::thread;

use rustix::fs::{CWD, FlockOperation, flock, makedev, mknodat};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use tempfile::TempDir;

const PLAIN: Rules<'static> = Rules {
    force: false,
    inputs: &[],
    mode: 0o600,
    sync: true,
    is_recording: false,
    is_binary: false,
    replaces_links: false,
};
const FORCE: Rules<'static> = Rules { force: true, ..PLAIN };

fn create(path: &Path) -> Result<(OutFile, File)> {
    OutFile::create(path, &PLAIN)
}

/// Why a file is refused.
fn why(path: &Path, rules: &Rules<'_>) -> String {
    OutFile::create(path, rules).unwrap_err().to_string()
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_when_it_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let (out, mut file) = create(&path).unwrap();
    assert_eq!(names(dir.path()), ["out.partial"]);
    file.write_all(b"text").unwrap();
    assert_eq!(out.keep().unwrap(), Some(4));
    assert_eq!(names(dir.path()), ["out"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    drop(create(&path).unwrap_err());
    let (out, _) = OutFile::create(&path, &FORCE).unwrap();
    drop(out);
    assert_eq!(fs::read(&path).unwrap(), b"text", "a failed run keeps the old file");
    assert_eq!(names(dir.path()), ["out"]);
    let (out, _) = OutFile::create(&path, &FORCE).unwrap();
    assert_eq!(out.keep().unwrap(), Some(0));
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let (out, _) = create(&path).unwrap();
    fs::write(&path, "other").unwrap();
    assert!(out.keep().unwrap_err().to_string().contains("exists"));
    assert_eq!(names(dir.path()), ["out"]);
    assert_eq!(fs::read(&path).unwrap(), b"other");
}

#[test]
fn an_input_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in");
    fs::write(&path, "data").unwrap();
    let inputs = [path.clone()];
    let rules = Rules { inputs: &inputs, ..FORCE };
    let error = OutFile::create(&path, &rules).unwrap_err();
    assert!(error.to_string().contains("recording"), "{error}");
    assert_eq!(names(dir.path()), ["in"]);
}

/// A directory in which everybody may create names, as /tmp, with a file beside it. The directory is of
/// root; `None` without root, who alone can make links of several users.
fn shared() -> Option<(TempDir, PathBuf)> {
    if !geteuid().is_root() {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let tmp = dir.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    fs::set_permissions(&tmp, Permissions::from_mode(0o1777)).unwrap();
    fs::write(dir.path().join("victim"), "precious").unwrap();
    Some((dir, tmp))
}

const NOBODY: Option<u32> = Some(65534);

#[test]
fn a_link_that_another_user_has_planted_is_not_followed() {
    let Some((dir, tmp)) = shared() else { return };
    let victim = dir.path().join("victim");
    let planted = tmp.join("planted");
    symlink(&victim, &planted).unwrap();
    lchown(&planted, NOBODY, NOBODY).unwrap();
    let planted_dir = tmp.join("dir");
    symlink(dir.path(), &planted_dir).unwrap();
    lchown(&planted_dir, NOBODY, NOBODY).unwrap();
    for mode in [0o1777, 0o777, 0o775] {
        fs::set_permissions(&tmp, Permissions::from_mode(mode)).unwrap();
        for path in [&planted, &planted_dir.join("victim"), &planted_dir.join("new")] {
            let why = why(path, &FORCE);
            assert!(why.contains("of another user"), "{mode:o}: {why}");
        }
    }
    assert_eq!(names(dir.path()), ["tmp", "victim"]);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    // in a directory that only its owner writes to, it is the owner's wish
    fs::set_permissions(&tmp, Permissions::from_mode(0o755)).unwrap();
    let (out, _) = OutFile::create(&planted, &FORCE).unwrap();
    out.keep().unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"");
}

#[test]
fn links_of_the_user_and_of_the_owner_of_the_directory_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let tmp = dir.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    fs::set_permissions(&tmp, Permissions::from_mode(0o1777)).unwrap();
    let link = tmp.join("link");
    symlink("../target", &link).unwrap();
    let (out, mut file) = create(&link).unwrap();
    file.write_all(b"new").unwrap();
    out.keep().unwrap();
    assert_eq!(fs::read(dir.path().join("target")).unwrap(), b"new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(why(&link, &PLAIN).contains("exists"));
    symlink("loop", tmp.join("loop")).unwrap();
    assert!(why(&tmp.join("loop"), &PLAIN).contains("symbolic links"));
    if geteuid().is_root() {
        chown(&tmp, NOBODY, NOBODY).unwrap();
        lchown(&link, NOBODY, NOBODY).unwrap();
        OutFile::create(&link, &FORCE).unwrap();
    }
}

#[test]
fn what_is_in_the_way_of_the_incomplete_file_is_replaced_only_if_it_is_ours() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let partial = dir.path().join("out.partial");
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let in_the_way: [(&str, &dyn Fn()); 4] = [
        ("a link", &|| symlink(&victim, &partial).unwrap()),
        ("a second name", &|| fs::hard_link(&victim, &partial).unwrap()),
        ("a directory", &|| fs::create_dir(&partial).unwrap()),
        ("a pipe", &|| {
            mknodat(CWD, &partial, FileType::Fifo, Mode::RUSR, 0).unwrap();
        }),
    ];
    for (what, put) in in_the_way {
        put();
        let why = why(&path, &FORCE);
        assert!(why.contains("out.partial is in the way"), "{what}: {why}");
        let _ = fs::remove_dir(&partial);
        let _ = fs::remove_file(&partial);
    }
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    if geteuid().is_root() {
        fs::write(&partial, "of another").unwrap();
        chown(&partial, NOBODY, NOBODY).unwrap();
        assert!(why(&path, &FORCE).contains("in the way"));
        fs::remove_file(&partial).unwrap();
    }
    fs::write(&partial, "left by a killed run").unwrap();
    let other = File::open(&partial).unwrap();
    flock(&other, FlockOperation::LockExclusive).unwrap();
    assert!(why(&path, &FORCE).contains("another process writes"));
    // not by closing it: a child that another test has just forked may still have it open
    flock(&other, FlockOperation::Unlock).unwrap();
    let recording = Rules { is_recording: true, ..PLAIN };
    assert!(why(&path, &recording).contains("was interrupted"));
    let (out, mut file) = create(&path).unwrap();
    file.write_all(b"new").unwrap();
    out.keep().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn a_recording_whose_name_was_taken_meanwhile_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let recording = Rules { is_recording: true, ..PLAIN };
    let (out, mut file) = OutFile::create(&path, &recording).unwrap();
    file.write_all(b"events").unwrap();
    fs::write(&path, "other").unwrap();
    let error = out.keep().unwrap_err().to_string();
    assert!(error.contains("stays"), "{error}");
    assert_eq!(fs::read(dir.path().join("out.partial")).unwrap(), b"events");
    assert_eq!(fs::read(&path).unwrap(), b"other");
}

#[test]
fn an_incomplete_file_that_was_replaced_gets_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let (out, _) = create(&path).unwrap();
    let partial = dir.path().join("out.partial");
    fs::remove_file(&partial).unwrap();
    fs::write(&partial, "planted").unwrap();
    let error = out.keep().unwrap_err().to_string();
    assert!(error.contains("replaced by another process"), "{error}");
    assert_eq!(names(dir.path()), ["out.partial"]);
}

#[test]
fn devices_and_directories_are_refused_with_and_without_force() {
    let dir = tempfile::tempdir().unwrap();
    for rules in [PLAIN, FORCE] {
        for path in [dir.path().to_owned(), dir.path().join("."), "/".into()] {
            assert!(why(&path, &rules).contains("is a directory"), "{path:?}");
        }
        let new = format!("{}/new/", dir.path().display());
        drop(OutFile::create(Path::new(&new), &rules).unwrap_err());
    }
    assert!(why(&dir.path().join("a/b"), &PLAIN).contains("No such file"));
    drop(OutFile::create(Path::new(""), &PLAIN).unwrap_err());
    for device in ["/dev/null", "/dev/full"] {
        let (out, _) = create(Path::new(device)).unwrap();
        assert!(!out.is_removable());
    }
    let nodes = [
        ("block", FileType::BlockDevice, makedev(7, 0)),
        ("random", FileType::CharacterDevice, makedev(1, 8)),
    ];
    for (name, kind, device) in nodes {
        let path = dir.path().join(name);
        // takes CAP_MKNOD
        if mknodat(CWD, &path, kind, Mode::RUSR | Mode::WUSR, device).is_ok() {
            for rules in [PLAIN, FORCE] {
                assert!(why(&path, &rules).contains("does not write to"), "{name}");
            }
        }
    }
}

#[test]
fn a_pipe_gets_the_bytes_unless_another_user_has_put_it_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let of_reader = path.clone();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        File::open(of_reader).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    let (out, mut file) = create(&path).unwrap();
    file.write_all(b"text").unwrap();
    drop(file);
    assert_eq!(out.keep().unwrap(), None);
    assert_eq!(reader.join().unwrap(), "text");
    let Some((_dir, tmp)) = shared() else { return };
    let path = tmp.join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    chown(&path, NOBODY, NOBODY).unwrap();
    assert!(why(&path, &FORCE).contains("of another user"));
}

/// As in /tmp, where the kernel lets only the owner of a file replace it. By a thread of another user.
#[test]
fn a_file_of_another_user_in_a_sticky_directory_is_refused_before_the_run() {
    let Some((dir, tmp)) = shared() else { return };
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let [own, other] = ["own", "other"].map(|name| tmp.join(name));
    for path in [&own, &other] {
        fs::write(path, "old").unwrap();
    }
    chown(&own, NOBODY, NOBODY).unwrap();
    chown(&other, Some(1), Some(1)).unwrap();
    let of_nobody = tmp.clone();
    let asked = thread::spawn(move || {
        let nobody = Uid::from_raw(65534);
        set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let [own, other] = ["own", "other"].map(|name| of_nobody.join(name));
        let refused = why(&other, &FORCE);
        let (out, _) = OutFile::create(&own, &FORCE).unwrap();
        (refused, out.keep().unwrap())
    });
    let (refused, kept) = asked.join().unwrap();
    let says = "other can't be replaced (Operation not permitted (os error 1)): give another file";
    assert!(refused.ends_with(says), "{refused}");
    assert_eq!(kept, Some(0));
    assert_eq!(fs::read(&other).unwrap(), b"old");
    assert_eq!(names(&tmp), ["other", "own"]);
}
