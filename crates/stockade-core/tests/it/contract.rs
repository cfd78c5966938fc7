//! The fake backend keeps the promises of the seam, so engine tests may rely on it.

use stockade_core::contract::suite;
use stockade_core::fake::{FakeBackend, FakeDialect};

#[tokio::test(start_paused = true)]
async fn the_fake_passes_the_contract() {
    let root = tempfile::tempdir().unwrap();
    let backend = FakeBackend::new();
    let report = suite(backend.clone(), FakeDialect, root.path()).await;
    report.assert_passed();
    assert!(report.left_out.is_empty(), "{report}");
    assert_eq!(backend.live(), 0);
}
