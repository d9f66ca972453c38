// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots each guest once; all tests of a suite use the same result.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Condvar, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::Value;

/// A machine and the script that runs on it.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// Script in tests/vm/guest, without `.sh`; also part of the result's name.
    pub script: &'static str,
    /// Distinguishes machines that run the same script.
    pub variant: &'static str,
    /// QEMU's `-smp`.
    pub smp: &'static str,
    /// Controllers, as arguments of nvme-args.sh; the first is nvme0. `nvme0..16` stands for 16 of them.
    pub controllers: &'static [&'static str],
    /// Kernel arguments.
    pub append: &'static str,
    /// Additional environment of boot.sh: `ONE_CPU`, `STORAGE_NS`, `TIMEOUT`.
    pub env: &'static [(&'static str, &'static str)],
}

/// The files that a guest left.
#[derive(Clone, Debug)]
pub struct Outcome {
    kernel: String,
    dir: PathBuf,
}

type Run = Arc<OnceLock<Result<Outcome, String>>>;

/// The guests that this process boots, by name; the first test of a suite boots it.
static RUNS: Mutex<BTreeMap<String, Run>> = Mutex::new(BTreeMap::new());

/// Scripts whose guests run alone: their judges compare times, or their loads race for the host's CPUs.
const ALONE: &[&str] = &["diff", "healthy", "nested", "plants", "preempt", "times"];

/// Guests that run at a time, by NVME_DEEP_GUESTS. With three on two CPUs the whole takes a tenth less time, and
/// a judge that waits for a guest to be in time fails now and then (seen: inflight, rings).
static PLACES: LazyLock<u32> = LazyLock::new(|| {
    let wanted = env::var("NVME_DEEP_GUESTS");
    wanted.map_or(2, |number| number.parse().unwrap())
});

/// Scripts whose guests take a minute or more, the longest first. They begin first, so that none of them
/// runs at the end beside nothing.
const LONG: &str = "recordings gone inflight arm64 large patterns hostile tracewords serve top waits context \
    tracestacks types tracefaults by counts who methods orders";

/// The places that guests have, and the turns of those that wait.
struct Queue {
    taken: u32,
    waiting: Vec<usize>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { taken: 0, waiting: Vec::new() });
static PLACE_IS_FREE: Condvar = Condvar::new();

/// The smallest number has the next turn. Guests that run alone come last: one that waited for both
/// places would leave one of them empty each time.
fn turn(script: &str) -> usize {
    let long = LONG.split(' ').position(|name| name == script);
    long.unwrap_or(100 + usize::from(ALONE.contains(&script)))
}

/// The places that a guest takes on the host. They are free again when this is dropped.
struct Place(u32);

impl Place {
    fn wait(script: &str) -> Self {
        let needed = if ALONE.contains(&script) { *PLACES } else { 1 };
        let turn = turn(script);
        let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.push(turn);
        while queue.taken + needed > *PLACES || queue.waiting.iter().any(|&other| other < turn) {
            let woken = PLACE_IS_FREE.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let own = queue.waiting.iter().position(|&other| other == turn);
        queue.waiting.swap_remove(own.unwrap());
        queue.taken += needed;
        // the next turn may be another one's now
        PLACE_IS_FREE.notify_all();
        Self(needed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
        queue.taken -= self.0;
        PLACE_IS_FREE.notify_all();
    }
}

/// Makes the kernel's files, if they are not there. Meanwhile other guests run.
fn fetch(kernel: &str) -> Result<(), String> {
    let fetch = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm/fetch.sh");
    let output = Command::new(fetch).arg(kernel).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let failed = format!("fetch.sh {kernel} failed, {}:\n{said}", output.status);
    output.status.success().then_some(()).ok_or(failed)
}

/// Whether QEMU, not the tool, ended the guest. While the kernel patches code, a CPU of QEMU 7.2
/// may run into a breakpoint that the kernel has already removed (see boot.sh; also seen at boot,
/// in sched_clock_cpu). On 6.1 the CPUs then compute without end (seen once, under load). A guest may
/// also never come up (seen once, on 7.x). Such a guest is booted again.
fn died_of_qemu(share: &Path, code: Option<i32>) -> bool {
    let console = fs::read(share.join("console.log")).unwrap_or_default();
    let console = String::from_utf8_lossy(&console);
    let told = fs::exists(share.join("status")).unwrap_or(false);
    let stopped = code == Some(123);
    !told && (stopped || console.contains("Oops: int3") || !console.contains("@@ guest begins @@"))
}

/// Boots a guest, again if QEMU ended it, three times at most. Returns the last output, and the
/// number of boots. The consoles of guests that QEMU ended are kept.
fn until_it_runs(boot: &mut Command, share: &Path) -> (Output, u32) {
    let mut boots = 1;
    loop {
        let output = boot.output().unwrap();
        let again = !output.status.success() && died_of_qemu(share, output.status.code());
        if boots == 3 || !again {
            return (output, boots);
        }
        let _ = fs::remove_dir_all(share.join("out"));
        let kept = share.join(format!("console-{boots}.log"));
        let _ = fs::rename(share.join("console.log"), kept);
        boots += 1;
    }
}

/// What a run said about a program that the verifier refused. The tool goes on with another method, so
/// counts may still be right; but no kernel of the lab refuses a program without a bug of ours.
fn refused_by_verifier(out: &Path) -> Option<String> {
    let cases = fs::read_dir(out).ok()?.flatten();
    let files = cases.filter_map(|case| fs::read_dir(case.path()).ok()).flatten().flatten();
    let mut files = files.map(|file| file.path()).filter(|f| f.extension() == Some("err".as_ref()));
    files.find_map(|file| {
        let said = String::from_utf8_lossy(&fs::read(&file).ok()?).into_owned();
        let line = said.lines().find(|line| line.contains("failed to load: -EACCES"))?;
        Some(format!("{}: {line}", file.display()))
    })
}

/// Appends to target/tmp/guests/seconds: how long a guest took, the CPU time of its last boot, its name,
/// how often it was booted.
fn note_time(share: &Path, name: &str, time: Duration, boots: u32) {
    let cpu = fs::read_to_string(share.join("cpu")).unwrap_or_default();
    let cpu: f64 = cpu.trim().parse().unwrap_or_default();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests/seconds");
    let line = format!("{:6.1} {cpu:6.1} {name} {boots}\n", time.as_secs_f64());
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    file.unwrap().write_all(line.as_bytes()).unwrap();
}

/// The binary under test, and the one with the options that plant faults, which exist in debug builds
/// only. arm64 has a debug build only, which takes a quarter of the time of a release build.
fn binaries(kernel: &str) -> [String; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of = |variable, path| {
        env::var(variable).unwrap_or_else(|_| root.join(path).display().to_string())
    };
    let (both, target) = if kernel.contains("arm64") {
        let debug = "target/aarch64-unknown-linux-gnu/debug/nvme-deep";
        let binary = of("NVME_DEEP_BIN_ARM64", debug);
        ([binary.clone(), binary], "debug-arm64")
    } else {
        let binary = of("NVME_DEEP_BIN", "target/release/nvme-deep");
        // cargo builds the other with the tests
        ([binary, env!("CARGO_BIN_EXE_nvme-deep").to_owned()], "build")
    };
    let exists = Path::new(&both[0]).exists();
    assert!(exists, "{} is not there: `make {target}` makes it", both[0]);
    both
}

/// The stand-ins of tests/host, and what uprobes.sh calls their programs.
const STAND_INS: [[&str; 2]; 2] = [["target.c", "target"], ["qemu_target.c", "qemu-system-x86_64"]];

/// Compiles the stand-ins for the guest's processor: guests of arm64 have no compiler.
fn compile_stand_ins(kernel: &str, share: &Path) {
    let is_arm64 = kernel.contains("arm64");
    let cc = if is_arm64 { "aarch64-linux-gnu-gcc" } else { "cc" };
    for [source, name] in STAND_INS {
        let source = format!("{}/tests/host/{source}", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(cc);
        command.args(["-O2", "-DLAYOUT=2401", &source, "-o"]);
        let done = command.arg(share.join(name)).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
}

/// The arguments of each controller that these stand for.
fn each(words: &str) -> Vec<String> {
    let Some((begin, rest)) = words.split_once("0..") else {
        return vec![words.to_owned()];
    };
    let (end, rest) = rest.split_once(' ').unwrap();
    (0..end.parse().unwrap()).map(|n: u32| format!("{begin}{n} {rest}")).collect()
}

impl Suite {
    /// A machine of two CPUs.
    pub const fn of(script: &'static str, controllers: &'static [&'static str]) -> Self {
        Self { script, variant: "", smp: "2", controllers, append: "", env: &[] }
    }

    /// Boots the guest, or returns the result of an earlier boot by this process.
    pub fn run(&self, kernel: &str) -> Outcome {
        let name = format!("{kernel}-{}{}", self.script, self.variant);
        let run = {
            let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(runs.entry(name.clone()).or_default())
        };
        let outcome = run.get_or_init(|| {
            fetch(kernel)?;
            let _place = Place::wait(self.script);
            self.boot(kernel, &name)
        });
        outcome.clone().unwrap_or_else(|why| panic!("{why}"))
    }

    fn boot(&self, kernel: &str, name: &str) -> Result<Outcome, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let lab = root.join("tests/vm");
        let share = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("guests").join(name);
        if let Some(left) = Outcome::left(kernel, &share) {
            return Ok(left);
        }
        let _ = fs::remove_dir_all(&share);
        fs::create_dir_all(&share).unwrap();
        if self.script == "uprobes" {
            compile_stand_ins(kernel, &share);
        }
        let binaries = binaries(kernel);
        let script = lab.join("guest").join(format!("{}.sh", self.script));
        let alive =
            "(setsid bash -c 'while echo . >/mnt/alive; do sleep 5; done' >/dev/null 2>&1 &)";
        let [binary, faulty] = binaries;
        let run = format!(
            "export NVME_DEEP={binary:?} NVME_DEEP_FAULTY={faulty:?}\n{alive}\nexec bash {script:?}\n"
        );
        fs::write(share.join("run.sh"), run).unwrap();
        let mut boot = Command::new(lab.join("boot.sh"));
        boot.arg(kernel)
            .arg(&share)
            .env("SMP", self.smp)
            .env("APPEND", self.append)
            .env("ALIVE", "1");
        boot.env("TIMEOUT", "900").envs(self.env.iter().copied());
        for words in self.controllers.iter().flat_map(|words| each(words)) {
            let out = Command::new(lab.join("nvme-args.sh"))
                .args(words.split_whitespace())
                .env("SHARE", &share)
                .output()
                .unwrap();
            assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
            boot.args(String::from_utf8(out.stdout).unwrap().lines());
        }
        let begin = Instant::now();
        let (output, boots) = until_it_runs(&mut boot, &share);
        note_time(&share, name, begin.elapsed(), boots);
        fs::write(share.join("output"), &output.stdout).unwrap();
        let why = if output.status.success() {
            let dir = share.join("out");
            let Some(refusal) = refused_by_verifier(&dir) else {
                return Ok(Outcome { kernel: kernel.to_owned(), dir });
            };
            format!("the guest {name}: {refusal}")
        } else {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            format!("the guest {name} failed, {}:\n{said}", output.status)
        };
        // at once: the test's own output appears only at the end of all tests
        let _ = writeln!(std::io::stderr(), "\n{why}");
        Err(why)
    }
}

impl Outcome {
    /// With NVME_DEEP_REUSE, the result of an earlier run is judged again, without a boot. This is
    /// for work on a judge.
    fn left(kernel: &str, share: &Path) -> Option<Self> {
        let done = fs::read_to_string(share.join("status")).is_ok_and(|s| s.trim() == "0");
        let reuse = done && env::var_os("NVME_DEEP_REUSE").is_some();
        reuse.then(|| Self { kernel: kernel.to_owned(), dir: share.join("out") })
    }

    /// The kernel that the guest ran, by its name in tests/vm/kernels.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The kernel's log.
    pub fn log(&self) -> String {
        let path = self.dir.with_file_name("dmesg");
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// The path of a file of a case.
    pub fn path(&self, case: &str, file: &str) -> PathBuf {
        self.dir.join(case).join(file)
    }

    /// The directory of a case.
    pub fn directory(&self, case: &str) -> PathBuf {
        self.dir.join(case)
    }

    /// A file of a case, as text.
    pub fn text(&self, case: &str, file: &str) -> String {
        let path = self.dir.join(case).join(file);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// A file of a case.
    pub fn bytes(&self, case: &str, file: &str) -> Vec<u8> {
        let path = self.dir.join(case).join(file);
        fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// The JSON objects that a run of a case printed, which must have succeeded.
    pub fn objects(&self, case: &str, name: &str) -> Vec<Value> {
        let said = self.text(case, &format!("{name}.err"));
        assert_eq!(self.code(case, name), 0, "{case} {name}: {said}");
        self.lines(case, &format!("{name}.out"))
    }

    /// A file of a case with a JSON object in each line.
    pub fn lines(&self, case: &str, file: &str) -> Vec<Value> {
        let text = self.text(case, file);
        let object = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        text.lines().map(object).collect()
    }

    /// The exit code of a run of a case.
    pub fn code(&self, case: &str, name: &str) -> i32 {
        let status = self.text(case, &format!("{name}.status"));
        status.trim().parse().unwrap()
    }

    /// Asserts that a run failed with this exit code, and one line on stderr that has all `words`.
    pub fn assert_refused(&self, case: &str, name: &str, code: i32, words: &[&str]) {
        let said = self.text(case, &format!("{name}.err"));
        assert_eq!(self.code(case, name), code, "{case} {name}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "{case} {name}: {said}");
        assert!(said.starts_with("nvme-deep: "), "{case} {name}: {said}");
        for word in words {
            assert!(said.contains(word), "{case} {name}: no `{word}` in: {said}");
        }
        let data = self.text(case, &format!("{name}.out"));
        assert_eq!(data, "", "{case} {name}: stdout is for data");
    }

    /// The files of a case with this suffix.
    pub fn files(&self, case: &str, ending: &str) -> Vec<String> {
        let names = fs::read_dir(self.dir.join(case)).unwrap();
        let mut names: Vec<String> =
            names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.ends_with(ending));
        names.sort();
        names
    }

    /// The names of all cases.
    pub fn cases(&self) -> Vec<String> {
        let mut cases: Vec<String> = fs::read_dir(&self.dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        cases.sort();
        assert!(!cases.is_empty(), "the guest ran no case");
        cases
    }
}
