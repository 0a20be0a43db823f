// SPDX-License-Identifier: Apache-2.0 OR MIT
//! symbols-peer FILE < ADDRESSES: names with inlined calls; prints how many as JSON.
use std::io::Read;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};

fn main() {
    let path = std::env::args().nth(1).expect("usage: symbols-peer FILE < ADDRESSES");
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("standard input");
    let addresses: Vec<u64> = text
        .split_ascii_whitespace()
        .map(|word| u64::from_str_radix(word, 16).expect("a hexadecimal address"))
        .collect();
    let symbolizer = Symbolizer::new();
    let found = symbolizer
        .symbolize(&Source::Elf(Elf::new(path)), Input::VirtOffset(&addresses))
        .expect("symbols");
    let (mut named, mut rows, mut bytes) = (0, 0, 0);
    for symbol in found.iter().filter_map(|one| one.as_sym()) {
        named += 1;
        rows += 1 + symbol.inlined.len();
        bytes += symbol.name.len();
        bytes += symbol.inlined.iter().map(|inlined| inlined.name.len()).sum::<usize>();
    }
    println!(
        "{{\"addresses\":{},\"named\":{named},\"rows\":{rows},\"bytes\":{bytes}}}",
        addresses.len()
    );
}
