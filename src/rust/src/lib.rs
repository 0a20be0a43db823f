// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Crates behind C functions, in one archive: two would define Rust's standard library twice.

mod blaze;
mod modules;
mod toml_reader;
