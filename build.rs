// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the BPF objects, generates their Rust skeletons, and compiles the type descriptions
//! of btf/, all into OUT_DIR.

#[cfg(feature = "live")]
#[path = "src/session/build_table.rs"]
#[allow(dead_code, reason = "session/builds.rs uses the rest")]
mod build_table;

#[cfg(feature = "live")]
mod live {
    use std::error::Error;
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::{env, fs, thread};

    use libbpf_cargo::SkeletonBuilder;

    use crate::build_table::{BUILDS, Entry};

    /// Level of zstd for the BPF objects.
    const PACK_LEVEL: i32 = 19;

    /// The option that leaves the path of this directory out of what clang writes: two builds in
    /// different directories make the same objects.
    fn no_paths() -> Result<String, std::io::Error> {
        Ok(format!("-ffile-prefix-map={}=.", env::current_dir()?.display()))
    }

    /// Compiles one file of btf/. The comment at its top gives the release and the build ids.
    fn shipped(source: &Path, out: &Path) -> Result<String, Box<dyn Error>> {
        let text = fs::read_to_string(source)?;
        let said = |what: &str| -> Result<String, String> {
            let line = text.lines().find_map(|l| l.strip_prefix(&format!(" * {what} ")));
            line.map(|l| l.trim().to_owned())
                .ok_or_else(|| format!("{}: no line ` * {what} ...`", source.display()))
        };
        let release = said("release")?;
        let object = out.join(format!("btf-{release}.o"));
        let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
        let status = Command::new(clang)
            .args(["-g", "-O2", "-Wall", "-Werror", "-target", "bpf", "-c"])
            .arg(no_paths()?)
            .arg(source)
            .arg("-o")
            .arg(&object)
            .status()?;
        if !status.success() {
            return Err(format!("clang refuses {}", source.display()).into());
        }
        Ok(format!(
            "Shipped {{ release: {release:?}, nvme_core: {:?}, nvme: {:?}, object: include_bytes!({:?}) }},\n",
            said("build-id nvme_core")?,
            said("build-id nvme")?,
            object
        ))
    }

    /// Writes the table of the compiled files, for src/machine/types.rs.
    fn all_shipped(out: &Path) -> Result<(), Box<dyn Error>> {
        let mut sources: Vec<PathBuf> = fs::read_dir("btf")?
            .filter_map(|e| Some(e.ok()?.path()))
            .filter(|p| p.extension().is_some_and(|e| e == "c"))
            .collect();
        sources.sort();
        let rows: Result<String, _> = sources.iter().map(|s| shipped(s, out)).collect();
        let table = format!("static SHIPPED: &[Shipped] = &[\n{}];\n", rows?);
        Ok(fs::write(out.join("shipped_btf.rs"), table)?)
    }

    /// The names of the settings: the fields of `struct nd_config`.
    fn settings(header: &str) -> Vec<&str> {
        let fields = header.split("struct nd_config {").nth(1).unwrap_or("");
        let fields = fields.split("};").next().unwrap_or("").lines();
        fields
            .filter_map(|line| line.trim().strip_prefix("__u")?.split([' ', ';', '[']).nth(1))
            .filter(|name| !name.starts_with("unused"))
            .collect()
    }

    /// Writes settings.h: the name that the programs use for each setting.
    fn write_settings(names: &[&str], out: &Path) -> std::io::Result<()> {
        let mut text = "/* Made by build.rs, from struct nd_config. */\n".to_owned();
        for name in names {
            let has_prefix = ["targ_", "tp_", "test_"].iter().any(|p| name.starts_with(p));
            let prefix = if has_prefix { "" } else { "cfg_" };
            text += &format!(
                "#ifdef FIXED_{name}\n#define {prefix}{name} FIXED_{name}\n\
                 #else\n#define {prefix}{name} config.{name}\n#endif\n"
            );
        }
        fs::write(out.join("settings.h"), text)
    }

    /// Makes shared.h: a variable of each struct and enum of the headers that Rust shares.
    fn shared(headers: &[String]) -> String {
        let lines = headers.iter().flat_map(|text| text.lines());
        let types = lines.filter_map(|line| line.strip_suffix(" {"));
        let types = types.filter(|kind| kind.starts_with("struct ") || kind.starts_with("enum "));
        let variable = |(at, kind)| format!("const {kind} shared_{at} = {{0}};\n");
        types.enumerate().map(variable).collect()
    }

    /// Makes hooks.h of the catalog: the number of each program, how many there are, and for
    /// bpf/nvme_deep.bpf.c the head of its function.
    fn hooks(catalog: &str) -> String {
        let rows = catalog.split("= &hooks! {").nth(1).unwrap_or("").split("};").next();
        let (mut numbers, mut heads) = (String::new(), String::new());
        for row in rows.unwrap_or("").lines() {
            let words: Vec<&str> = row.split_whitespace().collect();
            let [program, kind, target, ..] = words[..] else {
                continue;
            };
            let (section, head, access) = match kind {
                "Fentry" => ("fentry", "BPF_PROG", "BTF"),
                "Fexit" => ("fexit", "BPF_PROG", "BTF"),
                "TpBtf" => ("tp_btf", "BPF_PROG", "BTF"),
                "RawTp" => ("raw_tp", "BPF_PROG", "PROBE_READ"),
                "Kprobe" => ("kprobe", "BPF_KPROBE", "PROBE_READ"),
                "Kretprobe" => ("kretprobe", "BPF_KRETPROBE", "PROBE_READ"),
                kind => (kind, "", ""), // bpf/tracepoint.bpf.c has its own
            };
            let number = format!("ND_HOOK_{}", program.to_uppercase());
            numbers += &format!("\t{number},\n");
            heads += &format!(
                "#define NUMBER_{program} {number}\n#define ACCESS_{program} ACCESS_{access}\n\
                 #define PROGRAM_{program}(...) SEC(\"?{section}/{target}\") \
                 int {head}({program}, ##__VA_ARGS__)\n"
            );
        }
        format!(
            "/* Made by build.rs, from src/probe/catalog.rs. */\nenum nd_hook {{\n{numbers}\tND_HOOK_MAX,\n}};\n{heads}"
        )
    }

    /// Objects that several builds share, in the directory of NVME_DEEP_OBJECTS.
    struct Shared {
        dir: PathBuf,
        /// Of our sources, the headers of libbpf, the version of clang and the architecture. Not of the
        /// headers of the system.
        hasher: DefaultHasher,
    }

    impl Shared {
        /// `None` if the variable is not set.
        fn new(hooks: &str) -> Result<Option<Self>, Box<dyn Error>> {
            let Some(dir) = env::var_os("NVME_DEEP_OBJECTS") else {
                return Ok(None);
            };
            let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
            let version = Command::new(clang).arg("--version").output()?.stdout;
            let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
            let mut hasher = DefaultHasher::new();
            (version, arch, hooks).hash(&mut hasher);
            let headers = PathBuf::from(env::var("DEP_BPF_INCLUDE")?).join("bpf");
            // it has the options, and makes settings.h of abi.h
            let mut files = vec![PathBuf::from("build.rs")];
            for dir in [Path::new("bpf"), Path::new("bpf/include"), &headers] {
                let entries = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
                files.extend(entries.iter().map(fs::DirEntry::path));
            }
            files.retain(|path| path.is_file());
            files.sort();
            for file in files {
                (file.file_name(), fs::read(&file)?).hash(&mut hasher);
            }
            fs::create_dir_all(&dir)?;
            let dir = dir.into();
            Ok(Some(Self { dir, hasher }))
        }

        /// The file of a build of the table, compressed.
        fn file(&self, name: &str, options: &[&str]) -> PathBuf {
            let mut hasher = self.hasher.clone();
            options.hash(&mut hasher);
            let file = format!("{name}-{:016x}.bpf.o.zst", hasher.finish());
            self.dir.join(file)
        }
    }

    /// Compiles a build of the table, unless another build has.
    fn driver(
        entry: &Entry,
        settings: &[&str],
        shared: Option<&Shared>,
        out: &Path,
    ) -> Result<(), Box<dyn Error>> {
        let mut options: Vec<String> = entry.defines.iter().map(|m| format!("-D{m}")).collect();
        for (name, value) in entry.fixed.iter().copied().flatten() {
            if !settings.contains(name) {
                return Err(format!("{}: `{name}` is no setting", entry.name).into());
            }
            options.push(format!("-DFIXED_{name}={value}"));
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let packed = out.join(format!("{}.bpf.o.zst", entry.name));
        let file = shared.map(|shared| shared.file(entry.name, &options));
        if let Some(file) = file.as_ref().filter(|file| file.exists()) {
            fs::copy(file, packed)?;
            return Ok(());
        }
        object(entry.source, entry.name, &options, out)?;
        if let Some(file) = file {
            // whole at once: another build may read it
            let new = file.with_extension(std::process::id().to_string());
            fs::copy(packed, &new)?;
            fs::rename(new, file)?;
        }
        Ok(())
    }

    /// Compiles all builds of the table, as many at once as cargo runs jobs.
    fn drivers(settings: &[&str], hooks: &str, out: &Path) -> Result<(), Box<dyn Error>> {
        let jobs: usize = env::var("NUM_JOBS")?.parse()?;
        let shared = Shared::new(hooks)?;
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), String> {
            while let Some(entry) = BUILDS.get(next.fetch_add(1, Ordering::Relaxed)) {
                driver(entry, settings, shared.as_ref(), out).map_err(|error| error.to_string())?;
            }
            Ok(())
        };
        Ok(thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .try_for_each(|t| t.join().unwrap_or_else(|_| Err("a thread panicked".into())))
        })?)
    }

    /// The source of `BUILT` in session/builds.rs: the object of each build, and whether it fits a run.
    fn built(out: &Path) -> String {
        let one = |entry: &Entry| {
            let object = out.join(format!("{}.bpf.o.zst", entry.name));
            let fixed = entry.fixed.iter().copied().flatten().map(|(name, value)| {
                // ND_MODE_FINE is of enum nd_mode
                match value.rsplit_once('_') {
                    Some((kind, _)) => format!("c.{name} == {}::{value}.0", kind.to_lowercase()),
                    None => format!("c.{name} == {value}"),
                }
            });
            let fits = fixed.collect::<Vec<_>>().join(" && ");
            let fits = if fits.is_empty() { "|_| true".to_owned() } else { format!("|c| {fits}") };
            format!("Built {{ packed: include_bytes!({object:?}), fits: {fits} }},\n")
        };
        let all: String = BUILDS.iter().map(one).collect();
        format!("static BUILT: [Built; BUILDS.len()] = [\n{all}];\n")
    }

    /// Compiles one BPF source to OUT_DIR/NAME.bpf.o, and compresses it to NAME.bpf.o.zst, a tenth of
    /// its size.
    fn object(
        source: &str,
        name: &str,
        more: &[&str],
        out: &Path,
    ) -> Result<SkeletonBuilder, Box<dyn Error>> {
        let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
        // Debian keeps <asm/types.h> in a directory per architecture, which clang -target bpf does
        // not search. On other systems the directory does not exist, and the option has no effect.
        let asm = format!("/usr/include/{arch}-linux-gnu");
        let no_paths = no_paths()?;
        // libbpf-cargo would take the headers of libbpf from a new directory in each build, whose name
        // is in the line numbers of usdt.bpf.h
        let libbpf = env::var("DEP_BPF_INCLUDE")?;
        let (headers, no_libbpf) =
            (format!("-I{libbpf}"), format!("-ffile-prefix-map={libbpf}=libbpf"));
        let (made, no_out) =
            (format!("-I{}", out.display()), format!("-ffile-prefix-map={}=made", out.display()));
        let args = [
            "-mcpu=v3",
            &no_paths,
            &no_out,
            &no_libbpf,
            &headers,
            "-Wall",
            "-Werror",
            "-Ibpf/include",
            &made,
            "-idirafter",
            &asm,
        ];
        let mut builder = SkeletonBuilder::new();
        builder
            .source(format!("bpf/{source}.bpf.c"))
            .obj(out.join(format!("{name}.bpf.o")))
            .clang_args(args.iter().chain(more))
            .reference_obj(true)
            .build()
            // with the words of clang
            .map_err(|error| format!("{error:#}"))?;
        let object = fs::read(out.join(format!("{name}.bpf.o")))?;
        let packed = zstd::bulk::compress(&object, PACK_LEVEL)?;
        fs::write(out.join(format!("{name}.bpf.o.zst")), packed)?;
        Ok(builder)
    }

    /// Builds all objects.
    #[allow(clippy::print_stdout, reason = "the interface of build scripts")]
    pub fn build() -> Result<(), Box<dyn Error>> {
        println!("cargo:rerun-if-changed=bpf");
        println!("cargo:rerun-if-changed=btf");
        println!("cargo:rerun-if-changed=src/probe/catalog.rs");
        // for tests
        println!("cargo:rustc-env=LIBBPF_HEADERS={}", env::var("DEP_BPF_INCLUDE")?);
        let out = PathBuf::from(env::var("OUT_DIR")?);
        let hooks = hooks(&fs::read_to_string("src/probe/catalog.rs")?);
        fs::write(out.join("hooks.h"), &hooks)?;
        let header = fs::read_to_string("bpf/include/abi.h")?;
        let headers = [header, fs::read_to_string("bpf/include/host_abi.h")?, hooks.clone()];
        fs::write(out.join("shared.h"), shared(&headers))?;
        object("abi", "abi", &[], &out)?.generate(out.join("abi.skel.rs"))?;
        let settings = settings(&headers[0]);
        write_settings(&settings, &out)?;
        drivers(&settings, &hooks, &out)?;
        fs::write(out.join("built.rs"), built(&out))?;
        object("memory", "memory", &[], &out)?;
        let arch = match env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
            "x86_64" => "x86".to_owned(),
            "aarch64" => "arm64".to_owned(),
            other => other.to_owned(),
        };
        let target = format!("-D__TARGET_ARCH_{arch}");
        object("host", "host", &[&target], &out)?;
        object("usdt", "usdt", &[&target], &out)?;
        all_shipped(&out)
    }
}

/// Without the feature `live` there is nothing to compile, and no BTF to ship.
#[cfg(not(feature = "live"))]
fn main() -> std::io::Result<()> {
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    let none = "static SHIPPED: &[Shipped] = &[];\n";
    std::fs::write(std::path::Path::new(&out).join("shipped_btf.rs"), none)
}

#[cfg(feature = "live")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    live::build()
}
