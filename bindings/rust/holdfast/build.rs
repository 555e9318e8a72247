// SPDX-License-Identifier: MIT
//! Tests and examples find the library where the declarations were linked against it.
fn main() {
    if let Ok(folder) = std::env::var("DEP_HOLDFAST_LIBDIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
