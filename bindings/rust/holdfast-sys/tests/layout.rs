// SPDX-License-Identifier: MIT
//! The declarations against the C headers, by a C program that prints what the compiler thinks.
//! HOLDFAST_INCLUDE names the folder of the headers; the default is that of the repository.
mod lists;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn include() -> PathBuf {
    match std::env::var_os("HOLDFAST_INCLUDE") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include"),
    }
}

/// Compile and run a C program; its output.
fn run_c(name: &str, source: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Werror", "-I"])
        .arg(include())
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .status()
        .expect("a C compiler");
    assert!(status.success(), "the C program does not compile");
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn layouts() -> impl Iterator<Item = lists::Layout> {
    lists::layouts()
        .into_iter()
        .chain(lists::observe::layouts())
}

fn constants() -> impl Iterator<Item = (&'static str, i128)> {
    lists::constants()
        .into_iter()
        .chain(lists::observe::constants())
}

const HEAD: &str = "#include <holdfast/primitives.h>\n#include <holdfast/observe.h>\n#include <stdio.h>\n#include <stdalign.h>\nint main(void)\n{\n";

#[test]
fn structs_have_the_layout_of_c() {
    let (mut source, mut ours) = (String::from(HEAD), String::new());
    for layout in layouts() {
        let name = layout.name;
        writeln!(
            source,
            "printf(\"{name} %zu %zu\\n\", sizeof({name}), alignof({name}));"
        )
        .unwrap();
        writeln!(ours, "{name} {} {}", layout.size, layout.align).unwrap();
        for field in layout.fields {
            let member = field.name.trim_start_matches("r#"); // a keyword here
            writeln!(
                source,
                "printf(\"{name}.{member} %zu %zu\\n\", offsetof({name}, {member}), sizeof((({name} *)0)->{member}));"
            )
            .unwrap();
            writeln!(ours, "{name}.{member} {} {}", field.offset, field.size).unwrap();
        }
    }
    source.push_str("}\n");
    assert_eq!(run_c("layout", &source), ours);
}

#[test]
fn constants_have_the_values_of_c() {
    let (mut source, mut ours) = (String::from(HEAD), String::new());
    for (name, value) in constants() {
        // SIZE_MAX and UINT64_MAX do not fit a long long: unsigned ones are printed as such.
        let form = if value > i64::MAX as i128 {
            "%llu"
        } else {
            "%lld"
        };
        let cast = if value > i64::MAX as i128 {
            "unsigned long long"
        } else {
            "long long"
        };
        writeln!(source, "printf(\"{name} {form}\\n\", ({cast}){name});").unwrap();
        writeln!(ours, "{name} {value}").unwrap();
    }
    source.push_str("}\n");
    assert_eq!(run_c("constants", &source), ours);
}

/// Words of the headers, without comments, that satisfy `wanted`.
fn words(wanted: impl Fn(&str, &str) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for header in ["holdfast.h", "primitives.h", "observe.h"] {
        let text = std::fs::read_to_string(include().join("holdfast").join(header)).unwrap();
        let mut code = String::new();
        for (i, part) in text.split("/*").enumerate() {
            code.push_str(if i == 0 {
                part
            } else {
                part.split_once("*/").map_or("", |p| p.1)
            });
        }
        let mut rest = code.as_str();
        while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic()) {
            rest = &rest[at..];
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if wanted(word, after) {
                found.insert(word.to_string());
            }
            rest = after;
        }
    }
    found
}

/// Each function that the headers declare is in the list, so it is declared here and links.
#[test]
fn no_function_is_missing() {
    let declared = words(|word, after| {
        word.starts_with("hf_")
            && after.starts_with('(')
            && !word.ends_with("_fn")
            && word != "hf_init"
    });
    let ours: BTreeSet<String> = lists::functions()
        .iter()
        .chain(lists::observe::functions().iter())
        .map(|(name, address)| {
            assert_ne!(*address, 0);
            name.to_string()
        })
        .collect();
    assert_eq!(declared, ours);
}

/// Each struct that has a body, and each constant, is in the lists.
#[test]
fn no_struct_and_no_constant_is_missing() {
    let structs = words(|word, after| word.starts_with("hf_") && after.starts_with(" {"));
    let enums = [
        "hf_status",
        "hf_token_strength",
        "hf_kind",
        "hf_state",
        "hf_event",
        "hf_check_level",
        "hf_cell_action",
        "hf_sql_dialect",
        "hf_limit_algorithm",
        "hf_loss",
        "hf_observed",
    ];
    let ours: BTreeSet<String> = layouts()
        .map(|layout| layout.name.to_string())
        .chain(enums.iter().map(|name| name.to_string()))
        .collect();
    assert_eq!(structs, ours);

    let not_values = [
        "HF_API",
        "HF_USE",
        "HF_INIT",
        "HF_STATUS_MAP",
        "HF_STATUS_ENUM",
        "HF_",
    ];
    let declared = words(|word, _| {
        word.starts_with("HF_") && !word.ends_with("_INIT") && !not_values.contains(&word)
    });
    let known: BTreeSet<&str> = constants().map(|(name, _)| name).collect();
    for constant in &declared {
        assert!(
            known.contains(constant.as_str()),
            "{constant} is not declared"
        );
    }
    assert!(
        known.contains("HF_YIELDED"),
        "the statuses are made by a macro in C"
    );
}
