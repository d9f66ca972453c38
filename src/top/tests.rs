// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the screen: buffers of made intervals, and what keys do.

use crate::model::group::{By, Group, GroupNames, KeyPart};
use crate::model::histogram::Histogram;
use crate::model::ids::{QueueId, RowKey};
use crate::model::ledger::Ledger;
use crate::model::machine::{ControllerInfo, DiskInfo};
use crate::model::point::{Pattern, Point};
use crate::model::report::disk_names::DiskNames;
use crate::model::report::latency::{RowReport, Share, StageReport};
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;
use crate::top::report::{QueueLine, Row, Sample, SlowCommand, State, TopKey, stages};
use crate::{Opcode, QueueKind, Status};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;

use super::app::Order;
use super::*;
use crate::testing::EventBuilder;

/// The points of basic stages.
const BASIC: Pattern = 0b010_1001;

const ASCII: Look = Look { color: false, unicode: false };

fn hist(values: &[u64]) -> Histogram {
    let mut hist = Histogram::new();
    values.iter().for_each(|v| hist.record(*v));
    hist
}

/// Most of them are this long, some up to 2.5 times.
fn spread(ns: u64, commands: u64) -> Vec<u64> {
    let longer = |n: u64| ns / 2 * (n % 16).saturating_sub(12);
    (0..commands).map(|n| ns + longer(n)).collect()
}

fn row(ctrl: u32, code: u8, commands: u64, device_ns: u64) -> Row {
    let parts = [("queue", 10_000), ("submit", 50_000), ("device", device_ns), ("complete", 5_000)];
    let parts = parts.map(|(name, ns)| StageReport {
        name: name.into(),
        run: StageSet::Basic.run_named(name).unwrap(),
        hist: hist(&spread(ns, commands)),
    });
    let opcode = Opcode { queue: QueueKind::Io, code };
    let report = RowReport {
        key: TopKey::Row(RowKey { ctrl, nsid: 1, opcode, class: 0 }),
        count: commands,
        unmeasured: 0,
        iops: commands as f64,
        bytes: commands * 4096,
        mb_per_s: commands as f64 * 4096.0 / 1e6,
        stages: parts.into(),
        parts: vec![],
        total: hist(&spread(device_ns + 65_000, commands)),
        lat: vec![],
    };
    Row::new(report, &stages(StageSet::Basic, StageSet::Basic))
}

fn sample(second: u64) -> Sample {
    let slow = if second % 7 == 3 { 9 } else { 1 };
    let mut ledger = Ledger { matched: second * 1300, misses_known: true, ..Ledger::default() };
    ledger.no_row = u64::from(second > 30);
    Sample {
        at: Duration::from_secs(second),
        rows: vec![vec![
            row(0, 1, 200 + second * 10, 4_000_000 * slow),
            row(0, 2, 300, 4_500_000),
            row(1, 2, 800 - second, 1_000_000 + second * 30_000),
        ]],
        state: State::new(&ledger, Some(second / 15)),
        in_flight: Some(7),
        slowest: vec![slowest(second)],
        queues: Some(vec![queue(0, 1, 500), queue(1, 1, 100), queue(1, 2, 700)]),
        disks: disks(),
        names: GroupNames::default(),
    }
}

/// A disk on each controller.
fn disks() -> DiskNames {
    let mut disks = DiskNames::default();
    disks.recorded(&[0, 1].map(|instance| {
        let name = format!("nvme{instance}n1").into();
        let disk = DiskInfo { name, nsid: 1, ..DiskInfo::default() };
        ControllerInfo { instance, disks: vec![disk], ..ControllerInfo::default() }
    }));
    disks
}

/// A fifth of the time in the queue, a tenth in `submit`, and the rest in the device.
fn timeline(ns: u64) -> Timeline {
    Timeline::from_fn(BASIC, |point| {
        1 + match point {
            Point::Start => 0,
            Point::SetupOut => ns / 5,
            Point::Doorbell => ns / 5 + ns / 10,
            _ => ns,
        }
    })
}

/// The slowest command of a second; one of them has failed.
fn slowest(second: u64) -> SlowCommand {
    let ns = 4_000_000 * (1 + second % 7);
    SlowCommand {
        at_ns: second * 1_000_000_000 - 300_000_000,
        id: EventBuilder::read().cid(77).id,
        bytes: Some(4096),
        slba: Some(8 * second),
        total_ns: ns,
        timeline: Some(timeline(ns)),
        status: Some(Status(if second == 13 { 0x281 } else { 0 })),
        comm: second.is_multiple_of(2).then(|| "fio".into()),
    }
}

fn queue(ctrl: u32, qid: u16, iops: u32) -> QueueLine {
    QueueLine {
        id: QueueId::new(ctrl, qid),
        iops: iops.into(),
        in_flight: 3.0,
        interrupts: Some(f64::from(iops) / 2.0),
        irq: Some(26 + u32::from(qid)),
        cpus: [u32::from(qid) - 1].into(),
    }
}

/// 2026-11-26T04:05:46Z.
const CLOCK: RunClock = RunClock { begin_ns: 0, wall_ns: Some(1_795_665_946_000_000_000) };

fn empty(by: &[By]) -> App {
    let stages = stages(StageSet::Basic, StageSet::Basic);
    App::new("run.nvd", Duration::from_secs(1), stages, by, CLOCK)
}

/// Adds an interval, and shows it if a live screen would.
fn push(app: &mut App, sample: Sample) {
    app.push(sample);
    while !app.paused && app.next() {}
}

fn app(seconds: u64) -> App {
    let mut app = empty(&[]);
    (1..=seconds).for_each(|second| push(&mut app, sample(second)));
    app
}

fn press(app: &mut App, keys: &str) -> Action {
    let mut action = Action::Draw;
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            c => KeyCode::Char(c),
        };
        action = app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    action
}

fn drawn(app: &App, width: u16, height: u16, look: Look) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    view::draw(app, look, buffer.area, &mut buffer);
    let line = |y| -> String {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_large_screen_with_losses_and_the_device_stage() {
    let mut app = app(40);
    press(&mut app, "sss");
    let look = Look { color: true, unicode: true };
    insta::assert_snapshot!(drawn(&app, 120, 30, look));
}

#[test]
fn a_tall_screen_has_all_panels() {
    insta::assert_snapshot!(drawn(&app(20), 100, 48, ASCII));
}

#[test]
fn a_wide_screen_has_the_heat_map_beside_the_slowest_commands() {
    let mut app = app(20);
    insta::assert_snapshot!(drawn(&app, 120, 24, ASCII));
    press(&mut app, "\t");
    insta::assert_snapshot!(
        "the_slowest_commands_of_the_rows_that_are_shown",
        drawn(&app, 80, 24, ASCII)
    );
    press(&mut app, "\t");
    insta::assert_snapshot!("the_queues_of_the_selected_controller", drawn(&app, 80, 24, ASCII));
    assert!(drawn(&app, 120, 24, ASCII).contains("queues of nvme1"));
    press(&mut app, "\t\t/write\n");
    let text = drawn(&app, 80, 24, ASCII);
    assert!(text.contains("none yet"), "{text}");
}

#[test]
fn a_place_fits_its_column_and_keeps_its_share() {
    for (stage, share, text) in [
        ("wbt", 0.714, "wbt 71%"),
        ("device.run", 1.0, "device.run 100%"),
        ("submit+device", 0.57, "submit+devi 57%"),
        ("tag", 0.001, "tag 0.1%"),
    ] {
        let share = Share { stage: stage.into(), ns: 1, share };
        assert_eq!(view::place(Some(&share), 15), text);
    }
}

/// The seconds of the interval that is shown.
fn at(app: &App) -> u64 {
    app.now().unwrap().at.as_secs()
}

#[test]
fn a_recording_can_be_stepped_through_and_is_shown_as_a_whole_at_its_end() {
    let mut app = app(20);
    for (keys, second) in [("<", 19), ("{", 9), ("{{", 1), ("<", 1), (">", 2), ("}", 12)] {
        press(&mut app, keys);
        while app.goal.is_some() && app.next() {}
        assert_eq!((at(&app), app.paused), (second, true), "{keys}");
    }
    // the device of the writes takes nine times as long in the seconds 3, 10 and 17
    press(&mut app, "{k");
    app.filter = "nvme0n1 write".into();
    press(&mut app, "j\u{1b}");
    for second in [3, 10, 17] {
        press(&mut app, "n");
        while app.goal.is_some() && app.next() {}
        assert_eq!(at(&app), second);
    }
    press(&mut app, "0");
    while app.goal.is_some() && app.next() {}
    let whole = Sample { rows: vec![vec![row(0, 1, 7000, 50_000_000)]], ..sample(21) };
    app.finish(Some(whole));
    assert!(app.is_over());
    let rows = app.rows();
    assert_eq!((rows.len(), rows[0].1.unwrap().iops), (1, 7000.0));
    let text = drawn(&app, 80, 24, ASCII);
    assert!(text.contains("04:06:07 UTC  21.0 s  END: WHOLE RUN"), "{text}");
    assert_eq!(app.columns(rows[0].0, 10).len(), 10);
    press(&mut app, "<");
    assert_eq!(at(&app), 20);
    assert!(drawn(&app, 80, 24, ASCII).contains("20.0 of 21.0 s  every 1s  PAUSED"));
}

#[test]
fn the_speed_is_a_power_of_two() {
    for (keys, says) in
        [("", "every 1s  7 in flight"), ("++", "4x"), ("+++++++++-", "32x"), ("---", "1/8x")]
    {
        let mut app = app(3);
        press(&mut app, keys);
        let text = drawn(&app, 80, 24, ASCII);
        assert!(text.contains(&format!("{says}  ")), "{keys}: {text}");
    }
}

#[test]
fn the_first_selected_row_stays_selected() {
    let mut app = app(1);
    let selected = app.selected().cloned();
    let rows = vec![vec![row(0, 1, 9000, 1_000_000), row(1, 2, 1, 1)]];
    push(&mut app, Sample { rows, ..sample(2) });
    assert_eq!(first(&app), "nvme0n1 write");
    assert_eq!(app.selected().cloned(), selected);
}

#[test]
fn rows_without_a_command_stay_for_some_time() {
    let mut app = app(1);
    let idle = |second| Sample { rows: vec![vec![]], ..sample(second) };
    (2..=240).for_each(|second| push(&mut app, idle(second)));
    assert_eq!(app.rows().len(), 3);
    assert!(app.rows().iter().all(|(_, row)| row.is_none()));
    push(&mut app, idle(241));
    assert_eq!(app.rows().len(), 0);
}

#[test]
fn memory_for_intervals_is_bounded() {
    let mut app = empty(&[]);
    let mut large = sample(1);
    large.rows[0][0].heat = vec![vec![(0, 1); 1 << 20]];
    (0..20).for_each(|_| push(&mut app, large.clone()));
    assert_eq!(app.past(usize::MAX).len(), 7);
}

#[test]
fn trouble_is_shown_before_the_accuracy_and_only_if_there_is_any() {
    assert!(!drawn(&app(14), 80, 24, ASCII).contains("failed"));
    let text = drawn(&app(31), 80, 24, ASCII);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("  DEGRADED"), "{text}");
    assert!(lines[1].starts_with("failed 2  1 command without a row"), "{text}");
    let narrow = drawn(&app(14), 60, 24, ASCII);
    let row = narrow.lines().find(|line| line.starts_with(">nvme1n1 read ")).unwrap();
    assert!(row.ends_with("ms"), "columns that do not fit are left out: {narrow}");
    let ledger = Ledger { requeue_events: 12, ..Ledger::default() };
    assert_eq!(State::new(&ledger, None).alarms[0], "requeues 12");
}

#[test]
fn help_fits_80_by_24() {
    let mut app = app(1);
    press(&mut app, "?");
    insta::assert_snapshot!(drawn(&app, 80, 24, ASCII));
}

#[test]
fn every_size_can_be_drawn() {
    for seconds in [0, 1, 300] {
        let mut app = app(seconds);
        for _ in 0..6 {
            for width in [1, 5, 19, 20, 40, 61, 62, 79, 200] {
                for height in [1, 3, 4, 5, 9, 13, 14, 24, 60] {
                    drawn(&app, width, height, ASCII);
                }
            }
            press(&mut app, "?\t");
        }
    }
}

#[test]
fn a_page_has_colours_if_they_are_asked_for() {
    let app = app(20);
    let plain = page(&app, ASCII);
    assert!(!plain.contains('\u{1b}') && plain.lines().all(|l| l.len() <= 80));
    let look = Look { color: true, unicode: false };
    let colored = page(&app, look);
    let mut parser = vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 0);
    parser.process(colored.trim_end().replace('\n', "\r\n").as_bytes());
    let screen = parser.screen();
    let same = |a: &str, b: &str| a.lines().map(str::trim_end).eq(b.lines().map(str::trim_end));
    assert!(same(&screen.contents(), plain.trim_end()));
    assert_eq!(screen.cell(0, 0).unwrap().fgcolor(), vt100::Color::Idx(6));
    assert!(screen.cell(2, 0).unwrap().inverse());
}

fn first(app: &App) -> String {
    app.name_of_row(app.rows()[0].0)
}

#[test]
fn keys_sort_select_filter_and_pause() {
    let mut app = app(20);
    assert_eq!(first(&app), "nvme1n1 read");
    press(&mut app, "ooo");
    assert_eq!(app.order, Order::P99);
    assert_eq!(first(&app), "nvme0n1 read");
    press(&mut app, "j");
    let selected = app.selected().cloned();
    press(&mut app, "o");
    assert_eq!(app.selected().cloned(), selected, "the row, not its place");
    press(&mut app, "/write\n");
    assert_eq!((app.rows().len(), first(&app).as_str()), (1, "nvme0n1 write"));
    press(&mut app, "/q");
    assert!(app.editing, "a letter of the filter, not the end");
    press(&mut app, "\u{1b}");
    assert_eq!(app.rows().len(), 3);
    press(&mut app, " ");
    push(&mut app, sample(21));
    assert_eq!(at(&app), 20);
    press(&mut app, " ");
    push(&mut app, sample(22));
    assert_eq!(at(&app), 22);
    assert_eq!(press(&mut app, "q"), Action::Quit);
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert_eq!(app.key(control('z')), Action::Suspend);
    assert_eq!(app.key(control('c')), Action::Quit);
}

/// An interval of two containers and a cgroup that read and write.
fn grouped(second: u64) -> Sample {
    let of = |parts: Vec<KeyPart>, commands, ns| {
        let key = TopKey::Group(Group(parts));
        Row { key, ..row(0, 2, commands, ns) }
    };
    let opcode = |code| KeyPart::Opcode(Opcode { queue: QueueKind::Io, code });
    let cgroup = KeyPart::Cgroup;
    let mut names = GroupNames::default();
    let [db, unit] = ["/db", "/system.slice/postgresql-main.service"];
    for (id, path) in [(1, db), (2, unit), (3, "/a/very/long/path/of/jobs")] {
        names.cgroups.insert(id, path.into());
    }
    let (ms, others) = (1_000_000, || of(vec![], 5, 1_000_000));
    let rows = vec![
        vec![
            others(),
            of(vec![cgroup(1), opcode(2)], 100, ms),
            of(vec![cgroup(2), opcode(1)], 300, 2 * ms),
            of(vec![cgroup(3), opcode(2)], 40, 9 * ms * second),
        ],
        vec![
            others(),
            of(vec![cgroup(1)], 100, ms),
            of(vec![cgroup(2)], 300, 2 * ms),
            of(vec![cgroup(3)], 40, 9 * ms * second),
        ],
        vec![others(), of(vec![opcode(1)], 300, 2 * ms), of(vec![opcode(2)], 140, 5 * ms * second)],
    ];
    Sample { rows, names, queues: None, slowest: vec![], ..sample(second) }
}

#[test]
fn groups_by_all_keys_and_by_each() {
    let mut app = empty(&[By::Cgroup, By::Opcode]);
    (1..=5).for_each(|second| push(&mut app, grouped(second)));
    press(&mut app, "oo");
    assert_eq!(app.order, Order::Depth);
    insta::assert_snapshot!(drawn(&app, 80, 24, ASCII));
    press(&mut app, "b\t\t");
    insta::assert_snapshot!(drawn(&app, 120, 20, ASCII));
    press(&mut app, "b");
    assert_eq!(first(&app), "read");
    press(&mut app, "b/post\n");
    assert_eq!(first(&app), "postgresql-main.service write");
}

#[test]
fn late_intervals_are_not_made_up_for() {
    let [second, ten] = [1, 10].map(Duration::from_secs);
    assert_eq!(after(second, second, second), 2 * second);
    assert_eq!(after(second, ten, second), ten + second);
}
