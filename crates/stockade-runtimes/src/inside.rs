//! Where things appear inside a sandbox.

/// The Python package set, a virtual environment.
pub(crate) const PYTHON: &str = "/opt/stockade/python";
/// Programs of the Python package set.
pub(crate) const PYTHON_BIN: &str = "/opt/stockade/python/bin";
/// The JavaScript package set.
pub(crate) const JS: &str = "/opt/stockade/js";
/// Programs of the JavaScript package set.
pub(crate) const JS_BIN: &str = "/opt/stockade/js/node_modules/.bin";
/// Where imports without a path end their search: above every directory.
pub(crate) const NODE_MODULES: &str = "/node_modules";
/// The drivers.
pub(crate) const DRIVERS: &str = "/opt/stockade/drivers";
/// The ready-made part of Go's build cache.
pub(crate) const GO_CACHE: &str = "/opt/stockade/go-cache";
