// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that runs targets. Its stdout and stderr go nowhere; what it has to say goes to a pipe
//! that is its stdin.

use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Write, stdin};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::check::{check, cpu, kind, watch};
use crate::coverage::Coverage;
use crate::minimise::minimise;
use crate::mutate::{Random, mutate};
use crate::seeds::{corpus, files, seeds};
use crate::targets::{Entry, TARGETS, Target};

/// Time between lines on the progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// Writes a line to the parent.
pub struct Report(File);

impl Report {
    /// The pipe to the parent.
    pub fn open() -> Self {
        let pipe = stdin().as_fd().try_clone_to_owned();
        Self(File::from(pipe.unwrap_or_else(|e| panic!("stdin: {e}"))))
    }

    /// Writes a line.
    pub fn line(&mut self, text: &str) {
        let _ = writeln!(self.0, "{text}");
    }
}

/// The name of a file for an input.
fn name_of(input: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Runs all inputs of the corpus. Returns whether all is well.
pub fn replay(dir: &Path, only: Option<&str>) -> bool {
    let (mut report, mut is_well) = (Report::open(), true);
    for (name, _, target) in TARGETS.iter().filter(|t| only.is_none_or(|n| n == t.0)) {
        let mut target = target(dir);
        let inputs = corpus(name);
        for (from, input) in &inputs {
            let (_, began) = (fs::write(dir.join("current"), input), cpu());
            if let Some(finding) = check(&mut *target, input) {
                report.line(&format!("{name}: {from}: {finding}"));
                is_well = false;
            }
            if only.is_some() {
                let took = cpu().saturating_sub(began).as_millis();
                report.line(&format!("{name}: {from}: {took} ms"));
            }
        }
        report.line(&format!("{name}: {} inputs", inputs.len()));
    }
    is_well
}

/// Runs one input. Returns whether all is well.
pub fn once(dir: &Path, entry: &Entry, input: &Path) -> bool {
    watch();
    let input = fs::read(input).unwrap_or_default();
    let finding = check(&mut *(entry.2)(dir), &input);
    if let Some(finding) = &finding {
        Report::open().line(finding);
    }
    finding.is_none()
}

/// A fuzzing run.
pub struct Fuzz<'a> {
    pub entry: &'a Entry,
    pub dir: &'a Path,
    /// Where findings and inputs with new coverage are kept.
    pub kept: PathBuf,
    pub seed: u64,
    pub seconds: u64,
}

/// The state of a run.
struct Loop<'a> {
    fuzz: &'a Fuzz<'a>,
    target: Box<dyn Target>,
    coverage: Coverage,
    queue: Vec<Vec<u8>>,
    found: BTreeSet<String>,
    runs: u64,
    report: Report,
    begin: Instant,
    shown: Duration,
}

impl Loop<'_> {
    /// Runs an input, and keeps it if it is worth it.
    fn run(&mut self, input: &[u8], always: bool) {
        let _ = fs::write(self.fuzz.dir.join("current"), input);
        Coverage::reset();
        let finding = check(&mut *self.target, input);
        self.runs += 1;
        let is_new = self.coverage.take();
        if let Some(finding) = finding {
            self.found(&finding, input);
        } else if is_new || always {
            self.queue.push(input.to_vec());
            if is_new && !always {
                let path = self.fuzz.kept.join("queue").join(name_of(input));
                let _ = fs::write(path, input);
            }
        }
        let now = self.begin.elapsed();
        if now >= self.shown + PROGRESS {
            self.shown = now;
            self.progress();
        }
    }

    fn progress(&mut self) {
        let seconds = self.begin.elapsed().as_secs_f64();
        let guided = if self.coverage.is_there() {
            format!("{} places reached", self.coverage.reached())
        } else {
            "without coverage".into()
        };
        let line = format!(
            "{}: {seconds:.0} s, {} runs, {:.0}/s, {guided}, {} inputs, {} findings",
            self.fuzz.entry.0,
            self.runs,
            self.runs as f64 / seconds.max(0.001),
            self.queue.len(),
            self.found.len()
        );
        self.report.line(&line);
    }

    /// A finding: the first of its kind is minimised and kept.
    fn found(&mut self, finding: &str, input: &[u8]) {
        let kind = kind(finding).to_owned();
        if !self.found.insert(kind.clone()) {
            return;
        }
        let (target, form) = (&mut self.target, self.fuzz.entry.1);
        let small = minimise(form, input, &mut |input| {
            check(&mut **target, input).is_some_and(|f| crate::check::kind(&f) == kind)
        });
        let path = self.fuzz.kept.join("findings").join(name_of(&small));
        let _ = fs::write(&path, &small);
        self.report.line(&format!(
            "{}: FINDING {finding}\n  {} bytes in {}",
            self.fuzz.entry.0,
            small.len(),
            path.display()
        ));
    }
}

impl Fuzz<'_> {
    /// Runs until the time is up. Returns whether there was no finding.
    pub fn run(&self) -> bool {
        watch();
        for dir in ["queue", "findings"] {
            let _ = fs::create_dir_all(self.kept.join(dir));
        }
        let mut this = Loop {
            fuzz: self,
            target: (self.entry.2)(self.dir),
            coverage: Coverage::new(),
            queue: vec![],
            found: BTreeSet::new(),
            runs: 0,
            report: Report::open(),
            begin: Instant::now(),
            shown: Duration::ZERO,
        };
        let mut random = Random::new(self.seed);
        for input in seeds(self.entry.0, self.entry.1) {
            this.run(&input, true);
        }
        for path in files(&self.kept.join("queue")) {
            let input = fs::read(path).unwrap_or_default();
            this.run(&input, true);
        }
        while this.begin.elapsed().as_secs() < self.seconds {
            let from = random.below(this.queue.len());
            // the latest ones more often
            let from = if random.below(2) == 0 { from } else { this.queue.len() - 1 - from / 8 };
            let other = random.below(this.queue.len());
            let input = mutate(&mut random, self.entry.1, &this.queue[from], &this.queue[other]);
            this.run(&input, false);
        }
        this.progress();
        this.found.is_empty()
    }
}
