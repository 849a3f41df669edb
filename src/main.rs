//! The `sluicegate` program: everything is in the library.

/// A proxied request makes about 70 allocations; this allocator halves their cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    sluicegate::cli::main()
}
