// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the recorder and the interception of Tokio, as they stand in the project, with no
//! configuration step: `csrc/host_sources.txt` lists what a host needs.
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Sources of the interception that are the preload's alone.
const PRELOAD: [&str; 2] = ["preload.c", "attached.c"];

/// What names tasks in traces that the program writes itself, below csrc.
const NAMES: [&str; 7] = [
    "agent/own_names.c",
    "elf/elf_image.c",
    "elf/task_tables.c",
    "symbol/ring_names.c",
    "symbol/task_names.c",
    "symbol/task_type.c",
    "symbol/type_evidence.c",
];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let (csrc, cadapter) = (root.join("csrc"), root.join("cadapter"));
    let has_adapter = has_adapter();
    let mut build = cc::Build::new();

    build
        .std("gnu11")
        .include(root.join("cinclude"))
        .include(&csrc)
        .define("_GNU_SOURCE", None)
        .define("KY_WITHOUT_GZIP", None)
        .flag("-fvisibility=hidden")
        .flag("-fno-omit-frame-pointer")
        .flag("-fasynchronous-unwind-tables")
        .pic(true)
        .warnings(false)
        .files(host_sources(&csrc))
        .files(NAMES.iter().map(|name| csrc.join(name)))
        .file(root.join("src/inline.c"))
        .file(root.join("src/layout.c"));
    // An unoptimised recorder would be the slowest part of a debug build.
    if env::var("OPT_LEVEL").as_deref() == Ok("0") {
        build.opt_level(2);
    }
    if env::var_os("CARGO_FEATURE_ZSTD").is_some() {
        let include = env::var_os("DEP_ZSTD_INCLUDE").expect("zstd-sys says where its headers are");

        build.file(csrc.join("ship/compress_zstd.c"));
        for folder in env::split_paths(&include) {
            build.include(folder);
        }
    } else {
        build.define("KY_WITHOUT_ZSTD", None);
    }
    if has_adapter {
        build.flag("-include").flag(cadapter.join("own_calls.h"));
        build.include(&cadapter).files(adapter_sources(&cadapter));
    }
    build.compile("kymo");

    println!("cargo:rustc-check-cfg=cfg(kymo_tokio)");
    if has_adapter {
        println!("cargo:rustc-cfg=kymo_tokio");
    }
    for folder in [&csrc, &cadapter, &root.join("cinclude"), &root.join("src")] {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
}

/// Thunks exist for one architecture, and the slots of libc for one C library.
fn has_adapter() -> bool {
    let is = |name: &str, value: &str| env::var(name).as_deref() == Ok(value);

    is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
}

/// The listed files; `folder/*.c` stands for all of them.
fn host_sources(csrc: &Path) -> Vec<PathBuf> {
    let list = fs::read_to_string(csrc.join("host_sources.txt")).expect("csrc/host_sources.txt");
    let mut sources = Vec::new();

    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_suffix("/*.c") {
            Some(folder) => sources.extend(sources_in(&csrc.join(folder), "c")),
            None => sources.push(csrc.join(line)),
        }
    }
    sources
}

fn adapter_sources(cadapter: &Path) -> Vec<PathBuf> {
    let mut sources = sources_in(cadapter, "c");

    sources.extend(sources_in(cadapter, "S"));
    sources.retain(|path| !PRELOAD.iter().any(|name| path.ends_with(name)));
    sources
}

fn sources_in(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut sources: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();

    sources.sort();
    sources
}
