// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of Rust functions whose debug information has no modules (`debug = "line-tables-only"`).

/// Where a Rust name says in which module it is: not inside its generic arguments.
pub fn has_module(name: &str) -> bool {
    name.find("::").is_some_and(|at| !name[..at].contains('<')) || name.starts_with('<')
}

/// The crate whose sources lie in a directory: of a registry "name-version", of a git checkout
/// "name-hash/revision", else the directory's own name.
fn crate_of(directories: &[&str]) -> Option<String> {
    let last = directories.last().filter(|last| !last.is_empty())?;
    let above = directories.len().checked_sub(2).map(|at| directories[at]);
    let is_of_registry = directories.iter().rev().skip(1).take(2).any(|one| *one == "src");
    let is_revision = last.len() >= 7 && last.bytes().all(|byte| byte.is_ascii_hexdigit());
    let whole = match above {
        Some(above) if is_revision => above.rsplit_once('-').map_or(above, |(name, _)| name),
        _ if is_of_registry => last
            .match_indices('-')
            .find(|(at, _)| last.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit))
            .map_or(*last, |(at, _)| &last[..at]),
        _ => *last,
    };
    Some(whole.replace('-', "_"))
}

/// The module of a source file by cargo's layout: tokio-1.54.1/src/sync/mutex.rs is
/// tokio::sync::mutex, src/bin/serve.rs of any package is serve.
fn module_of(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.strip_suffix(".rs")?.split('/').collect();
    let (file, directories) = parts.split_last()?;
    let program = file.replace('-', "_");
    let (root, mut inner): (String, Vec<&str>) =
        match (directories.iter().rposition(|one| *one == "src"), directories.last()) {
            (_, Some(&("examples" | "tests" | "benches"))) => (program.clone(), Vec::new()),
            (Some(at), _) => match &directories[at + 1..] {
                ["bin"] => (program.clone(), Vec::new()),
                ["bin", program, rest @ ..] => (program.replace('-', "_"), rest.to_vec()),
                rest => (crate_of(&directories[..at])?, rest.to_vec()),
            },
            _ => return None,
        };
    let is_root = inner.is_empty() && (matches!(*file, "main" | "lib") || program == root);
    if *file != "mod" && !is_root {
        inner.push(file);
    }
    Some(std::iter::once(root.as_str()).chain(inner).collect::<Vec<_>>().join("::"))
}

/// Debug information of `line-tables-only` has of an inlined function the last part of its name:
/// the file says the module.
pub fn with_module(name: String, file: &[u8], bytes_max: usize) -> String {
    if has_module(&name) || name.is_empty() {
        return name;
    }
    let module = std::str::from_utf8(file).ok().and_then(module_of);
    let Some(module) = module else { return name };
    let whole = format!("{module}::{name}");
    if whole.len() > bytes_max {
        name
    } else {
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, file: &str) -> String {
        with_module(name.to_string(), file.as_bytes(), 100)
    }

    #[test]
    fn the_file_of_a_crate_says_the_module() {
        let registry = "/cargo/registry/src/index-1949cf8c6b5b557f";
        let cases = [
            (format!("{registry}/tokio-1.54.1/src/sync/mutex.rs"), "tokio::sync::mutex"),
            (format!("{registry}/futures-util-0.3.31/src/lib.rs"), "futures_util"),
            (format!("{registry}/sha2-0.10.8/src/sha256/mod.rs"), "sha2::sha256"),
            (format!("{registry}/tokio-1.0.0-alpha.1/src/io/util.rs"), "tokio::io::util"),
            ("/rustc/59807616e1fa/library/core/src/task/wake.rs".into(), "core::task::wake"),
            ("/cargo/git/checkouts/axum-1a2b3c4d/59f8a1b/src/serve.rs".into(), "axum::serve"),
            ("/src/my-shop/src/main.rs".into(), "my_shop"),
            ("/src/my-shop/src/cart/price.rs".into(), "my_shop::cart::price"),
            ("/src/my-shop/src/bin/load-test.rs".into(), "load_test"),
            ("/src/my-shop/src/bin/admin/main.rs".into(), "admin"),
            ("/src/my-shop/src/bin/admin/users.rs".into(), "admin::users"),
            ("/src/my-shop/examples/demo.rs".into(), "demo"),
        ];
        for (file, module) in cases {
            assert_eq!(named("f", &file), format!("{module}::f"), "{file}");
        }
    }

    #[test]
    fn what_has_a_module_keeps_it() {
        let file = "/shop/src/cart.rs";
        for name in ["a::b", "<a::B as c::D>::e", "a::b<T>", ""] {
            assert_eq!(named(name, file), name);
        }
    }

    #[test]
    fn generic_arguments_are_no_module() {
        assert_eq!(
            named("drop<tokio::sync::Semaphore>", "/rustc/1/library/core/src/mem/mod.rs"),
            "core::mem::drop<tokio::sync::Semaphore>"
        );
    }

    #[test]
    fn what_says_nothing_changes_nothing() {
        for file in ["", "x.c", "lib.rs", "/a/b.rs", "src", "/src/", "/src/lib.rs", "bin.rs", ".rs"]
        {
            assert_eq!(named("f", file), "f", "{file}");
        }
        assert_eq!(with_module("f".into(), b"\xff/src/a.rs", 100), "f");
        assert_eq!(named(&"f".repeat(95), "/shop/src/cart.rs"), "f".repeat(95));
    }
}
