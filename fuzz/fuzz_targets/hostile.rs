//! Hands what libFuzzer makes up to the target that `TRIBUTARY_FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tributary::testing::hostile::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("TRIBUTARY_FUZZ_TARGET").expect("TRIBUTARY_FUZZ_TARGET names a target");
    let named = TARGETS.iter().find(|target| target.name == name);
    *named.unwrap_or_else(|| panic!("no target is called {name}"))
});

thread_local! {
    static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
}

fuzz_target!(|bytes: &[u8]| {
    RUNTIME.with(|runtime| {
        let _entered = runtime.enter();
        (TARGET.run)(bytes);
    });
});
