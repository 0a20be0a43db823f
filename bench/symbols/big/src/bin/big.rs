// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Never run: it only has to be large. Every dependency is named, so that it is linked.
use std::hint::black_box;

fn main() {
    black_box(clap::Command::new("big"));
    black_box(regex::Regex::new("a").is_ok());
    black_box(serde_json::from_str::<serde_json::Value>("1").is_ok());
    black_box(syn::parse_str::<syn::File>("").is_ok());
    black_box(tokio::runtime::Runtime::new().is_ok());
}
