// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who caused a command, at the end of its parameters: as text and as JSON. Only runs that observe it
//! have it, so this is never on the way of the others.

use super::Context;
use super::json::string;
use super::line::Line;
use super::text::name;
use crate::model::origin::Origin;
use crate::model::text::Text;

/// The path of a cgroup, if it is known.
fn path_of<'c>(cx: &Context<'c>, id: u64) -> Option<&'c Text> {
    cx.cgroups?.get(&id)
}

/// Writes a cgroup as text: its path, its id if that is not known, or nothing.
fn cgroup_text(line: &mut Line, key: &'static str, id: u64, cx: &Context<'_>) {
    if id == 0 {
        return;
    }
    line.str(key);
    match path_of(cx, id) {
        Some(path) => name(line, path),
        None => line.dec(id),
    }
}

/// Writes it as text.
#[cold]
#[inline(never)]
pub(super) fn text(line: &mut Line, origin: &Origin, cx: &Context<'_>) {
    cgroup_text(line, ", cgroup=", origin.io_cgroup, cx);
    let by = &origin.submitter;
    if !by.is_known() {
        if cx.has_submitters {
            line.str(", submitter=unknown");
        }
        return;
    }
    line.str(", submitter_pid=");
    line.dec(by.pid);
    if by.tid != by.pid {
        line.str(", submitter_tid=");
        line.dec(by.tid);
    }
    line.str(", submitter_comm=");
    name(line, &by.comm());
    if by.cgroup != origin.io_cgroup {
        cgroup_text(line, ", submitter_cgroup=", by.cgroup, cx);
    }
}

fn cgroup_json(line: &mut Line, key: &'static str, id: u64, cx: &Context<'_>) {
    line.str(key);
    match path_of(cx, id) {
        Some(path) => string(line, path),
        None => line.str("null"),
    }
}

/// Writes it as JSON. What is not known is null.
#[cold]
#[inline(never)]
pub(super) fn json(line: &mut Line, origin: &Origin, cx: &Context<'_>) {
    cgroup_json(line, ",\"cgroup\":", origin.io_cgroup, cx);
    line.str(",\"cgroup_id\":");
    line.dec(origin.io_cgroup);
    cgroup_json(line, ",\"task_cgroup\":", origin.task_cgroup, cx);
    let by = &origin.submitter;
    if !by.is_known() {
        if cx.has_submitters {
            line.str(",\"submitter_pid\":null");
        }
        return;
    }
    line.str(",\"submitter_pid\":");
    line.dec(by.pid);
    line.str(",\"submitter_tid\":");
    line.dec(by.tid);
    line.str(",\"submitter_comm\":");
    string(line, &by.comm());
    cgroup_json(line, ",\"submitter_cgroup\":", by.cgroup, cx);
}
