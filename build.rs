//! Compiles the one BPF object and generates its Rust skeleton into OUT_DIR.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

#[allow(clippy::print_stdout, reason = "how a build script talks to cargo")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=bpf");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
    // Debian keeps <asm/types.h> in a directory per architecture, which clang -target bpf does not
    // search; elsewhere the directory does not exist and the option is harmless.
    let asm = format!("/usr/include/{arch}-linux-gnu");
    SkeletonBuilder::new()
        .source("bpf/nvme_deep.bpf.c")
        .clang_args([
            "-Wall",
            "-Werror",
            "-Ibpf/include",
            "-idirafter",
            asm.as_str(),
        ])
        .reference_obj(true)
        .build_and_generate(out.join("nvme_deep.skel.rs"))?;
    Ok(())
}
