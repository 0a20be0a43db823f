// SPDX-License-Identifier: Apache-2.0 OR MIT
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    allocates::main();
}
