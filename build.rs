//! Compiles `proto/`, and does nothing else. `src/proto.rs` includes the result.

use std::{env, error::Error, fs, path::PathBuf};

/// The root of our `.proto` files: `import` lines are relative to it.
const ROOT: &str = "proto";

/// The files that define a service. What they import comes along.
const SERVICES: [&str; 3] = [
    "io/linkerd/proxy/destination.proto",
    "tributary/v1/introspection.proto",
    "tributary/v1/xds.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    println!("cargo::rerun-if-changed=build.rs");

    // Imports make the set complete, and source information carries our comments to users of gRPC reflection.
    let mut compiler = protox::Compiler::new([ROOT])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(SERVICES)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "Cargo speaks to build scripts through the environment"
    )]
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("Cargo did not set OUT_DIR")?);
    fs::write(
        out.join("descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;

    // Ordered maps make equal messages equal bytes.
    tonic_prost_build::configure()
        .btree_map(".")
        .bytes(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
