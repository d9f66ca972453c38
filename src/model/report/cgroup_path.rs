// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of cgroups in advice, which people paste into a shell. Users name cgroups, and the name in a
//! recording may be any text: only names of printable ASCII are used, quoted where a shell needs it.

use crate::model::filter::quoted;
use crate::model::text::Text;

/// Where cgroups of version 2 are mounted, unless the machine says otherwise.
const MOUNT: &str = "/sys/fs/cgroup";
/// Stands for the path of a cgroup that is not used.
const PLACEHOLDER: &str = "CGROUP";
/// Longest path.
const LONGEST: usize = 512;

/// Whether a path below the mount point is used.
fn is_usable(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    let names = path.strip_prefix('/');
    path.len() <= LONGEST
        && path.bytes().all(|b| matches!(b, b' '..=b'~'))
        && !path.contains(['\\', '\'', '!', '`'])
        && names.is_some_and(|names| names.split('/').all(is_name))
}

/// The path of a file of a cgroup as a shell reads it; `/` is the root.
pub fn in_shell(mount: Option<&Text>, cgroup: &str, file: &str) -> String {
    let mount = mount.map(|mount| &**mount).filter(|path| is_usable(path));
    let mount = mount.unwrap_or(MOUNT);
    match cgroup {
        "/" => quoted(&format!("{mount}/{file}")),
        path if is_usable(path) => quoted(&format!("{mount}{path}/{file}")),
        _ => quoted(&format!("{mount}/{PLACEHOLDER}/{file}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(cgroup: &str) -> String {
        in_shell(None, &Text::from(cgroup), "io.max")
    }

    #[test]
    fn names_that_a_shell_reads_are_quoted() {
        for (cgroup, text) in [
            ("/", "/sys/fs/cgroup/io.max"),
            ("/system.slice/docker-1.scope", "/sys/fs/cgroup/system.slice/docker-1.scope/io.max"),
            ("/a b", "'/sys/fs/cgroup/a b/io.max'"),
            ("/$(reboot)", "'/sys/fs/cgroup/$(reboot)/io.max'"),
        ] {
            assert_eq!(shown(cgroup), text);
        }
        let mount = Text::from("/sys/fs/cgroup/unified");
        let text = in_shell(Some(&mount), "/a", "io.max");
        assert_eq!(text, "/sys/fs/cgroup/unified/a/io.max");
        let mount = Text::from("/tmp/\u{1b}x");
        assert_eq!(in_shell(Some(&mount), "/a", "f"), "/sys/fs/cgroup/a/f");
    }

    #[test]
    fn others_are_replaced() {
        let others = "|a|/a/../../../etc|/./a|/a//b|/it's|/a\nb|/\u{1b}[2J|/\u{202e}x|/\\x1b";
        for cgroup in others.split('|') {
            assert_eq!(shown(cgroup), "/sys/fs/cgroup/CGROUP/io.max", "{cgroup}");
        }
    }
}
