// SPDX-License-Identifier: MIT
//! Find libholdfast: the build folder that HOLDFAST_BUILD names, else the one of the repository
//! around this crate, else what pkg-config knows.
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=HOLDFAST_BUILD");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG");
    println!("cargo:rustc-link-lib=dylib=holdfast");
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let build = match env::var_os("HOLDFAST_BUILD") {
        Some(build) => Some(PathBuf::from(build)),
        None => Some(root.join("build")).filter(|build| has_library(&build.join("lib"))),
    };
    let folder = match build {
        Some(build) => build.join("lib"),
        None => match by_pkg_config() {
            Some(folder) => folder,
            None => return, // a folder of the system, which the linker knows
        },
    };
    if !has_library(&folder) {
        panic!("no libholdfast.so in {}", folder.display());
    }
    let folder = folder.canonicalize().expect("the folder of libholdfast.so");
    println!(
        "cargo:rustc-link-search=native={}",
        within_target(&folder).display()
    );
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    // For the build script of a crate that depends on this one: DEP_HOLDFAST_LIBDIR.
    println!("cargo:libdir={}", folder.display());
}

/// The same folder, by a link in the target folder: `cargo run` and `cargo test` of every crate above this one look for shared
/// libraries in the target folder only.
fn within_target(folder: &Path) -> PathBuf {
    let link = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("lib");
    let _ = std::fs::remove_file(&link);
    match std::os::unix::fs::symlink(folder, &link) {
        Ok(()) => link,
        Err(_) => folder.to_path_buf(),
    }
}

fn has_library(folder: &Path) -> bool {
    folder.join("libholdfast.so").is_file()
}

fn by_pkg_config() -> Option<PathBuf> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = Command::new(&program)
        .args(["--variable=libdir", "holdfast >= 0.2.0"])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Some(PathBuf::from(text.trim())).filter(|folder| has_library(folder))
        }
        _ => panic!(
            "libholdfast was not found: install it so that `{} holdfast` knows it, or set HOLDFAST_BUILD to a build folder",
            program
        ),
    }
}
