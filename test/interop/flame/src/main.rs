// SPDX-License-Identifier: Apache-2.0 OR MIT
//! flame < FOLDED > SVG - fails where inferno could not use every line.
use inferno::flamegraph::{from_reader, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    options.count_name = "units".to_string();
    options.min_width = 0.0;
    from_reader(&mut options, std::io::stdin().lock(), std::io::stdout().lock())?;
    Ok(())
}
