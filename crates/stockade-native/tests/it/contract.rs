//! The conformance suite that every backend passes.

use stockade_core::contract::{PosixDialect, suite};

use crate::place::{Place, host_has};

#[tokio::test]
async fn the_native_backend_keeps_the_contract() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let report = suite(place.native.clone(), PosixDialect, place.dir.path()).await;
    println!("{report}");
    report.assert_passed();
    let grouped = host_has(&["cgroup"]);
    assert_eq!(report.left_out.is_empty(), grouped, "{report}");
}
