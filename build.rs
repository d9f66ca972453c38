// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the BPF objects, generates their Rust skeletons, and compiles the type descriptions
//! of btf/, all into OUT_DIR.

#[cfg(feature = "live")]
mod live {
    use std::env;
    use std::error::Error;
    use std::fs;
    use std::path::Path;
    use std::path::PathBuf;
    use std::process::Command;

    use libbpf_cargo::SkeletonBuilder;

    /// Level of zstd for the BPF objects.
    const PACK_LEVEL: i32 = 19;

    /// The option that leaves the path of this directory out of what clang writes: two builds in
    /// different directories make the same objects.
    fn no_paths() -> Result<String, std::io::Error> {
        Ok(format!(
            "-ffile-prefix-map={}=.",
            env::current_dir()?.display()
        ))
    }

    /// Compiles one file of btf/. The comment at its top gives the release and the build ids.
    fn shipped(source: &Path, out: &Path) -> Result<String, Box<dyn Error>> {
        let text = fs::read_to_string(source)?;
        let said = |what: &str| -> Result<String, String> {
            let line = text
                .lines()
                .find_map(|l| l.strip_prefix(&format!(" * {what} ")));
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
        let (headers, no_libbpf) = (
            format!("-I{libbpf}"),
            format!("-ffile-prefix-map={libbpf}=libbpf"),
        );
        let args = [
            "-mcpu=v3",
            &no_paths,
            &no_libbpf,
            &headers,
            "-Wall",
            "-Werror",
            "-Ibpf/include",
            "-idirafter",
            &asm,
        ];
        let mut builder = SkeletonBuilder::new();
        builder
            .source(format!("bpf/{source}.bpf.c"))
            .obj(out.join(format!("{name}.bpf.o")))
            .clang_args(args.iter().chain(more))
            .reference_obj(true)
            .build()?;
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
        let out = PathBuf::from(env::var("OUT_DIR")?);
        object("abi", "abi", &[], &out)?.generate(out.join("abi.skel.rs"))?;
        object("nvme_deep", "nvme_deep", &[], &out)?;
        object("nvme_deep", "nvme_deep_plain", &["-DND_NO_KFUNC"], &out)?;
        for mode in ["total", "basic", "fine"] {
            let only = format!("-DND_ONLY=ND_MODE_{}", mode.to_uppercase());
            object(
                "nvme_deep",
                &format!("nvme_deep_{mode}"),
                &["-DND_USUAL", &only],
                &out,
            )?;
            object(
                "nvme_deep",
                &format!("nvme_deep_{mode}_status"),
                &["-DND_USUAL", &only, "-DND_STATUS"],
                &out,
            )?;
        }
        object("nvme_deep", "nvme_deep_trace", &["-DND_USUAL"], &out)?;
        object("tracepoint", "tracepoint", &[], &out)?;
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

/// Without the feature `live` there is nothing to compile.
#[cfg(not(feature = "live"))]
const fn main() {}

#[cfg(feature = "live")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    live::build()
}
