// SPDX-License-Identifier: Apache-2.0 OR MIT
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    allocates::main();
}
