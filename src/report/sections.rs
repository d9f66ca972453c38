// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections of a page about a recording.

use std::mem::take;
use std::ops::RangeInclusive;

use crate::model::event::{Event, EventKind, Finished};
use crate::model::group::comm_text;
use crate::model::histogram::Histogram;
use crate::model::report::groups::{Groups, Sort};
use crate::model::report::latency::{Diagnosed, Evidence, Explained, RowReport, StageReport, rows};
use crate::model::report::recount::Recount;
use crate::model::report::stacks::{RecordedStacks, Weight};
use crate::model::stack::Frame;
use crate::model::stage::{StageRun, StageSet};
use crate::model::timeline::{Segment, total_ns};
use crate::nvme::decode::blocks;
use crate::run::drive::{End, FileReader};
use crate::run::slowest::{Named, Slowest};
use crate::units::{counted, nanos, percent, size_text};
use crate::view::header::Header;
use crate::view::heatmap::grid::{Plot, Quantity};
use crate::view::heatmap::{Caption, RATES_SIZE, SIZE, draw, draw_rates};
use crate::view::ledger::write_ledger;
use crate::view::picture::{Canvas, Svg};
use crate::view::stacks as flamegraph;
use crate::view::table::{Cell, WIDE};
use crate::view::text::{Shown, TextView, name_of, share};
use crate::view::theme::Theme;
use crate::when::RunClock;
use anyhow::Result;

use super::Gathered;
use super::html::{BarPart, Html};

/// Stages and their colours. A stage that was merged with another one has the last.
const COLOURS: [(&str, &str); 7] = [
    ("before", "s0"),
    ("queue", "s1"),
    ("submit", "s2"),
    ("device", "s3"),
    ("complete", "s4"),
    ("end", "s5"),
    ("merged", "s6"),
];
/// Groups of a table.
const GROUPS: usize = 50;
/// Most cells of a picture that have notes.
const NOTES: usize = 4000;
const VIEW: TextView = TextView {
    theme: Theme { color: false },
    width: WIDE,
    hist: false,
    detail: false,
    top: GROUPS,
    advice: None,
};

/// All about a recording. `number`: its place in the page.
pub fn recording(
    mut gathered: Gathered,
    (file, header, end): (&FileReader, &Header, &End),
    diagnosis: &Result<Diagnosed>,
    number: usize,
) -> Html {
    let mut page = Page { html: Html::default(), links: Vec::new(), number };
    let mut html = Html::default();
    verdict(diagnosis, &mut html);
    page.section("Machine", |html| machine(&gathered, file, header, html));
    let all = &gathered.counted[0];
    let rows = rows(&all.now, all.recount.stage_set, None, end.covers);
    page.section("Where the time went", |html| {
        classes(&rows, &gathered, html);
    });
    let unknown = gathered.submissions.unknown();
    page.section("Over time", |html| {
        for (plot, unknown) in take(&mut gathered.plots).into_iter().zip([0, unknown]) {
            picture(plot, unknown, gathered.clock, html);
        }
    });
    let slowest = gathered.slowest.take().into_iter().flat_map(Slowest::slowest_first);
    let slowest: Vec<Named> = slowest.collect();
    page.section("Slowest commands", |html| slow_commands(&slowest, &gathered, html));
    if let Some(stacks) = &gathered.stacks {
        let rows = stacks.sums().rows(Weight::Latency);
        let title = "sum of latency by process and kernel stack";
        if let Ok(svg) = flamegraph::inline(&rows, Weight::Latency, title) {
            page.section("Stacks", |html| {
                html.markup("<div class=\"flame\">").picture(&svg).markup("</div>");
            });
        }
    }
    for counted in &gathered.counted[1..] {
        let Recount { by, stage_set, .. } = &counted.recount;
        let groups = Groups::of(&counted.now, by, *stage_set, None, end.covers, Sort::Share);
        if !groups.groups.is_empty() {
            page.section(counted.title, |html| by_group(&groups, &gathered, html));
        }
    }
    if !gathered.log.is_empty() {
        page.section("Kernel log", |html| {
            let time = |at_ns: u64| {
                let day = gathered.clock.utc(at_ns, "%H:%M:%S%.3f");
                day.unwrap_or_else(|| gathered.clock.text(at_ns))
            };
            let lines =
                gathered.log.iter().map(|line| format!("{}  {}", time(line.at_ns), line.text));
            html.element("pre", &lines.collect::<Vec<_>>().join("\n"));
        });
    }
    page.section("Accuracy", |html| {
        let mut text = Vec::new();
        // a Vec takes everything
        let _ = write_ledger(&end.ledger, VIEW.theme, true, &mut text);
        html.element("pre", &String::from_utf8_lossy(&text));
    });
    page.finish(html)
}

/// A page with sections and links to them.
struct Page {
    html: Html,
    links: Vec<(String, String)>,
    number: usize,
}

impl Page {
    fn section(&mut self, title: &str, inside: impl FnOnce(&mut Html)) {
        let id = format!("r{}-{}", self.number, self.links.len() + 1);
        self.html.markup("<section id=\"").text(&id).markup("\">").element("h2", title);
        inside(&mut self.html);
        self.html.markup("</section>\n");
        self.links.push((id, title.to_owned()));
    }

    fn finish(self, first: Html) -> Html {
        let mut html = Html::default();
        html.markup("<nav>");
        for (id, title) in &self.links {
            html.markup("<a href=\"#").text(id).markup("\">").text(title).markup("</a> ");
        }
        html.markup("</nav>\n").part(&first).part(&self.html);
        html
    }
}

/// The headline, what was found, and what was not.
fn verdict(diagnosis: &Result<Diagnosed>, html: &mut Html) {
    let found = match diagnosis {
        Ok(found) => found,
        Err(error) => {
            html.element("h1", "no diagnosis").element("p", &format!("{error:#}"));
            return;
        }
    };
    html.element("h1", &found.headline);
    for Explained { title, is_note, lines } in &found.causes {
        html.markup(match is_note {
            true => "<div class=\"cause note\">",
            false => "<div class=\"cause\">",
        });
        html.element("h3", title).markup("<dl>");
        let mut last = "";
        for Evidence { name, value } in lines {
            html.element("dt", if name == last { "" } else { name });
            html.markup("<dd>").prose(value).markup("</dd>");
            last = name;
        }
        html.markup("</dl></div>\n");
    }
    for (title, rules) in found.others.iter().filter(|(_, rules)| !rules.is_empty()) {
        html.fold(false, &format!("{title} ({})", rules.len()), |html| {
            let row = |cells: &[String; 3]| cells.iter().map(|cell| Html::of(cell)).collect();
            html.table(&["<RULE", "<OF", "<WHY"], rules.iter().map(row));
        });
    }
}

/// The machine, the time, the controllers with their settings.
fn machine(gathered: &Gathered, file: &FileReader, header: &Header, html: &mut Html) {
    let header = header.text(VIEW.theme, usize::MAX);
    html.element("p", &header.trim_end().replace("  ", ", "));
    let (machine, info) = (gathered.machine.as_deref(), file.info());
    let (chosen, recorded) =
        (file.settings.filter.text(), [&*info.filter, &info.chosen_by()].join(" "));
    let parts = [
        Some(info.arch.to_string()),
        machine.and_then(|m| Some(m.hypervisor.as_ref()?.to_string())),
        machine.and_then(|m| m.cpus).map(|n| counted(n.into(), "CPU")),
        Some(format!("{} stages", info.stage_set.name())),
        info.ring.as_ref().map(|ring| format!("ring: {}", ring.text())),
        Some(recorded)
            .filter(|text| text.len() > 1)
            .map(|text| format!("filter when recorded: {}", text.trim())),
        Some(chosen).filter(|text| !text.is_empty()).map(|text| format!("selected by {text}")),
        (file.unselected > 0).then(|| format!("{} left out", counted(file.unselected, "command"))),
        file.incomplete().map(|_| "the end of the recording is missing".to_owned()),
    ];
    let parts = parts.into_iter().flatten().filter(|text| !text.is_empty());
    html.element("p", &parts.collect::<Vec<_>>().join(", "));
    let rows = gathered.controllers.iter().map(|controller| {
        let set =
            machine.and_then(|m| m.controllers.iter().find(|c| c.instance == controller.instance));
        let number = |n: Option<u32>| n.map_or_else(|| "-".into(), |n| n.to_string());
        let disks: Vec<&str> = controller.disks.iter().map(|disk| &*disk.name).collect();
        let schedulers = set.into_iter().flat_map(|set| &set.disks);
        let mut schedulers: Vec<&str> =
            schedulers.filter_map(|disk| disk.scheduler.as_deref()).collect();
        schedulers.dedup();
        let cells = [
            format!("nvme{}", controller.instance),
            controller.model.trim().to_owned(),
            set.map(|set| set.class.name().to_owned()).unwrap_or_default(),
            controller.transport.to_string(),
            number(
                set.and_then(|set| set.io_queues)
                    .or(controller.queues.map(|n| n.saturating_sub(1))),
            ),
            number(controller.depth),
            disks.join(", "),
            schedulers.join(", "),
        ];
        cells.iter().map(|text| Html::of(text)).collect()
    });
    let heads =
        ["<NAME", "<MODEL", "<KIND", "<TRANSPORT", "I/O QUEUES", "ENTRIES", "<DISKS", "<SCHEDULER"];
    html.table(&heads, rows);
}

fn colour(run: StageRun) -> &'static str {
    let group = run.group().unwrap_or("merged");
    COLOURS.iter().find(|(name, _)| *name == group).map_or("s6", |(_, class)| class)
}

fn legend(html: &mut Html) {
    html.markup("<p class=\"legend\">");
    for (name, class) in COLOURS {
        html.markup("<span><svg viewBox=\"0 0 1 1\"><rect width=\"1\" height=\"1\" class=\"");
        html.markup(class).markup("\"/></svg>").text(name).markup("</span> ");
    }
    html.markup("</p>\n");
}

/// The bar of a row: the stages by their part of the time.
fn bar_of<K>(row: &RowReport<K>) -> Html {
    let stages = row.stages.iter().filter(|stage| stage.hist.sum() > 0);
    let part = |stage: &StageReport| {
        let share = share(&stage.hist, row);
        (colour(stage.run), format!("{} {}", stage.name, percent(share)), share)
    };
    Html::bar(&stages.map(part).collect::<Vec<BarPart>>(), 1.0)
}

/// A table of rows or groups, each with its bar.
fn summary<K>(all: &[Shown<'_, K>], html: &mut Html) {
    let has_stages = all.iter().any(|shown| !shown.row.stages.is_empty());
    let names = all.first().map_or(0, |shown| shown.names.len());
    let mut heads: Vec<String> = Vec::new();
    let mut table = Vec::new();
    for shown in all {
        let mut cells: Vec<Cell<'_>> = VIEW.cells(shown, has_stages);
        if has_stages {
            // beside the bar, where a narrow window shows it
            cells[names..].rotate_right(1);
        }
        heads = cells.iter().map(|(head, _)| (*head).to_owned()).collect();
        // the bar has the other places
        let first = |(head, text): &Cell<'_>| match *head {
            "<WHERE" => Html::of(text.split("  ").next().unwrap_or_default()),
            _ => Html::of(text),
        };
        let mut cells: Vec<Html> = cells.iter().map(first).collect();
        if has_stages {
            heads.insert(names, "<STAGES".to_owned());
            cells.insert(names, bar_of(shown.row));
        }
        table.push(cells);
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    html.table(&heads, table.into_iter());
}

/// The classes of commands, and the stages of each.
fn classes(rows: &[RowReport], gathered: &Gathered, html: &mut Html) {
    if rows.is_empty() {
        html.element("p", "no finished command to show");
        return;
    }
    let shown = rows.iter().map(|row| {
        let subject = gathered.disks.subject(row.key.ctrl, row.key.nsid, row.key.opcode);
        let (disk, op) = subject.rsplit_once(' ').unwrap_or((&subject, ""));
        Shown { names: vec![("<DISK", disk.into()), ("<OP", op.into())], share: None, row }
    });
    let shown: Vec<Shown<'_, _>> = shown.collect();
    summary(&shown, html);
    if gathered.stage_set == StageSet::Total {
        return;
    }
    legend(html);
    let hists = || rows.iter().flat_map(|row| &row.stages).map(|stage| &stage.hist);
    let power = |ns: u64| u64::from(ns.max(1).ilog2());
    let first = hists().filter_map(|h| h.iter().map(|b| b.first).find(|ns| *ns > 0)).min();
    let last = rows.iter().filter_map(|row| row.total.max()).max();
    let range = power(first.unwrap_or(1))..=power(last.unwrap_or(1));
    let [from, to] = [*range.start(), range.end() + 1].map(|n| nanos((n as f64).exp2()));
    html.element("p class=\"dim\"", &format!(
        "The distributions go from {from} to {to}; each column is twice as slow as the one before."
    ));
    for (n, shown) in shown.iter().enumerate() {
        html.fold(n < 3, &shown.name(), |html| stages(shown.row, range.clone(), html));
    }
}

/// The stages of a row with their distributions, and the total.
fn stages(row: &RowReport, range: RangeInclusive<u64>, html: &mut Html) {
    let (shown, small) = VIEW.shown_stages(row);
    let mut all: Vec<(String, &Histogram)> =
        shown.iter().map(|stage| (name_of(row, stage), &stage.hist)).collect();
    all.push(("total".into(), &row.total));
    let mut heads: Vec<&str> = Vec::new();
    let table = all.iter().map(|(name, hist)| {
        let cells = VIEW.stage(name, hist, row);
        heads = cells.iter().map(|(head, _)| *head).chain(["<DISTRIBUTION"]).collect();
        let cells = cells.iter().map(|(_, text)| Html::of(text.trim()));
        cells.chain([distribution(name, hist, range.clone())]).collect::<Vec<Html>>()
    });
    let table: Vec<Vec<Html>> = table.collect();
    html.table(&heads, table.into_iter());
    if !small.is_empty() {
        let names: Vec<String> =
            small.iter().map(|s| format!("{} {}", s.name, percent(share(&s.hist, row)))).collect();
        html.element("p class=\"dim\"", &format!("small: {}", names.join(", ")));
    }
}

/// How many commands took how long, by powers of two.
fn distribution(name: &str, hist: &Histogram, range: RangeInclusive<u64>) -> Html {
    let counts = range.clone().map(|power| {
        let is_here = |ns: u64| u64::from(ns.max(1).ilog2()).max(*range.start()) == power;
        hist.iter().filter(|b| is_here(b.first)).map(|b| b.count).sum::<u64>()
    });
    let counts: Vec<u64> = counts.collect();
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let column = |(power, count): (u64, u64)| {
        let [from, to] = [power, power + 1].map(|n| nanos((n as f64).exp2()));
        (count as f64 / most as f64, format!("{from} to {to}: {}", counted(count, "command")))
    };
    let columns: Vec<_> = range.clone().zip(counts).map(column).collect();
    Html::columns(&format!("distribution of {name}"), &columns)
}

/// A quantity over time. `unknown`: commands that never came to the plot.
fn picture(plot: Plot, unknown: u64, clock: RunClock, html: &mut Html) {
    let (quantity, left_out) = (plot.quantity, unknown + plot.left_out);
    let disks = plot.disks.names().join(", ");
    let map = plot.finish();
    if map.cells.is_empty() {
        html.element(
            "p",
            &format!("no picture: {} {}", counted(left_out, "command"), quantity.missing()),
        );
        return;
    }
    let has_notes = map.cells.len() <= NOTES;
    let is_latency = matches!(quantity, Quantity::Latency(_));
    let caption = Caption {
        disks,
        run: counted(map.commands(), "command"),
        filter: String::new(),
        quantity,
        block: None,
        clock,
        left_out,
    };
    let mut add = |size, name: &str, draw: &dyn Fn(&mut dyn Canvas)| {
        let mut canvas = Box::new(Svg::inline(size, name, has_notes));
        draw(&mut *canvas);
        let svg = canvas.finish().unwrap_or_default();
        html.picture(&String::from_utf8_lossy(&svg));
    };
    add(SIZE, &caption.title(), &|canvas| draw(&map, &caption, canvas));
    if is_latency {
        add(RATES_SIZE, "commands per second", &|canvas| draw_rates(&map, clock, canvas));
    }
}

/// The slowest commands: each with its bar, process and stack.
fn slow_commands(slowest: &[Named], gathered: &Gathered, html: &mut Html) {
    let most = slowest.iter().filter_map(|(event, ..)| total_ns(event)).max().unwrap_or(0);
    let rows = slowest.iter().filter_map(|(event, disk, set)| {
        let EventKind::Command(id, submission, outcome) = &event.what else {
            return None;
        };
        let total = total_ns(event)?;
        let task = submission.task(id.opcode, gathered.who);
        let process = task
            .map_or_else(|| "?".into(), |task| format!("{}[{}]", comm_text(&task.comm), task.pid));
        let first = blocks(id.opcode.queue, *set, &submission.sqe).map(|b| b.slba.to_string());
        let bytes = submission.bytes.filter(|bytes| *bytes > 0).map(|n| size_text(n.into()));
        let failed = outcome.verdict.map(|v| v.status).filter(|status| !status.is_success());
        let disk = match disk.is_empty() {
            true => format!("nvme{} admin", id.ctrl),
            false => disk.to_string(),
        };
        let time = gathered.clock.utc(event.at_ns, "%H:%M:%S%.3f");
        let mut cells = vec![Html::of(&nanos(total as f64))];
        cells.push(stages_of(event, gathered.stage_set, total as f64 / most.max(1) as f64));
        let name = id.opcode_name(*set, Some(submission));
        let texts = [
            time.unwrap_or_else(|| {
                let since = event.at_ns.saturating_sub(gathered.clock.begin_ns);
                format!("{:.3} s", since as f64 / 1e9)
            }),
            disk,
            name.map_or_else(|| id.opcode.to_string(), Into::into),
            bytes.unwrap_or_else(|| "-".into()),
            first.unwrap_or_else(|| "-".into()),
            id.qid.to_string(),
            process,
        ];
        cells.extend(texts.iter().map(|text| Html::of(text)));
        let frames =
            |stacks: &RecordedStacks| event.what.stacks().map(|id| stacks.frames(id).to_vec());
        cells.extend(gathered.stacks.as_ref().map(|stacks| stack(frames(stacks))));
        cells.push(Html::of(&failed.map_or_else(|| "ok".into(), |status| status.to_string())));
        Some(cells)
    });
    let mut heads =
        vec!["TOTAL", "<STAGES", "<COMPLETED", "<DISK", "<OP", "SIZE", "LBA", "QID", "<PROCESS"];
    heads.extend(gathered.stacks.is_some().then_some("<STACK"));
    heads.push("<STATUS");
    html.table(&heads, rows);
}

/// The bar of a command.
fn stages_of(event: &Event, stage_set: StageSet, length: f64) -> Html {
    let stages = Finished::of(event).map(|command| command.intervals(stage_set).stages);
    let stages = stages.unwrap_or_default().into_iter().filter(|stage| stage.ns > 0);
    let part = |stage: Segment| {
        let name = format!("{} {}", stage.run.name(), nanos(stage.ns as f64));
        (colour(stage.run), name, stage.ns as f64)
    };
    Html::bar(&stages.map(part).collect::<Vec<BarPart>>(), length)
}

fn stack(stacks: [Vec<Frame>; 2]) -> Html {
    let mut html = Html::default();
    for frames in stacks.into_iter().filter(|frames| !frames.is_empty()) {
        let lines: Vec<String> = frames.iter().map(ToString::to_string).collect();
        html.fold(false, &counted(frames.len() as u64, "frame"), |html| {
            html.element("pre", &lines.join("\n"));
        });
    }
    html
}

/// Groups with most of the time.
fn by_group(groups: &Groups, gathered: &Gathered, html: &mut Html) {
    html.element("p class=\"dim\"", gathered.who.text());
    let by: Vec<&str> = groups.by.iter().map(|by| by.name()).collect();
    let head = format!("<{}", by.join(", ").to_uppercase());
    let (shown, rest) = groups.first(GROUPS);
    let shown = shown.into_iter().map(|group| Shown {
        names: vec![(&*head, groups.name(&group.row.key, &gathered.disks))],
        share: Some(group.share),
        row: &group.row,
    });
    summary(&shown.collect::<Vec<_>>(), html);
    if let Some(rest) = rest {
        let (groups, commands) = (rest.groups as u64, counted(rest.commands, "command"));
        let text = format!(
            "{}: {commands}, {} of the time",
            counted(groups, "more group"),
            percent(rest.share)
        );
        html.element("p class=\"dim\"", &text);
    }
}
