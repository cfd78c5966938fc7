//! One good value for each argument, for refusals.

/// How a good value of this argument looks.
pub(super) fn of(name: &str) -> &'static str {
    match name {
        "code" => r#""print(6 * 7)""#,
        "language" => r#""python""#,
        "command" => r#""ls -la""#,
        "argv" => r#"["ls", "-la"]"#,
        "args" => r#"["--verbose", "input.csv"]"#,
        "packages" => r#"["requests", "pandas>=2"]"#,
        "env" => r#"{"MODE": "test"}"#,
        "stdin" | "input" => r#""line one\nline two\n""#,
        "sandbox" => r#""calm-otter-7f3k9q2w" (from an earlier answer)"#,
        "run" => r#""run-4k7wq2m9zt3x" (from an earlier answer)"#,
        "workspace" | "name" => r#""analysis""#,
        "workdir" => r#""src""#,
        "path" => r#""data/input.csv""#,
        "glob" => r#""**/*.csv""#,
        "content" => r#""first line\nsecond line\n""#,
        "old" => r#""the exact text to swap""#,
        "network" => r#""none""#,
        "encoding" => r#""utf-8""#,
        "mode" => r#""overwrite""#,
        "action" => r#""list""#,
        "image" => r#""host""#,
        "signal" => r#""INT""#,
        "idempotency_key" => r#""job-17""#,
        "timeout_s" | "wait_s" | "yield_s" => "30",
        "memory_mb" => "512",
        "cpus" => "1.5",
        "ttl_s" => "1800",
        "depth" => "2",
        "limit" => "200",
        "offset" | "stdout_offset" | "stderr_offset" => "1",
        "fresh" | "background" => "true",
        _ => "see the tool's schema",
    }
}
