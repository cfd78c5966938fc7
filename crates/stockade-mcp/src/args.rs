//! Arguments of a tool call: lenient in what is read, clear in what is refused.
//!
//! Models write numbers as texts, lists as JSON in a text, and `null` for "not
//! given". All of that is read as meant. What cannot be meant is refused with
//! the name of the argument, what was expected, and an example.

mod coerce;
mod examples;

use std::collections::BTreeMap;

use rmcp::model::JsonObject;
use serde_json::Value;

use crate::error::{Failure, Outcome};

/// The arguments of one call. Each is taken once.
#[derive(Debug)]
pub(crate) struct Args {
    given: JsonObject,
}

impl Args {
    /// Refuses names that the tool does not know.
    pub(crate) fn new(tool: &str, schema: &JsonObject, given: Option<JsonObject>) -> Outcome<Self> {
        let mut given = given.unwrap_or_default();
        given.retain(|_, value| !value.is_null());
        let known: Vec<&str> = schema
            .get("properties")
            .and_then(Value::as_object)
            .map(|properties| properties.keys().map(String::as_str).collect())
            .unwrap_or_default();
        match given.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Self { given }),
            Some(name) => Err(unknown(tool, name, &known)),
        }
    }

    /// A text.
    pub(crate) fn text(&mut self, name: &'static str) -> Outcome<Option<String>> {
        self.take(name, "a text", coerce::text)
    }

    /// A text that must be there, and not only as white space.
    pub(crate) fn required_text(&mut self, name: &'static str) -> Outcome<String> {
        match self.text(name)? {
            None => Err(missing(name)),
            Some(text) if text.trim().is_empty() => {
                Err(Failure::argument(name, format!("is empty; give {}", examples::of(name))))
            }
            Some(text) => Ok(text),
        }
    }

    /// A text that must be there but may be empty.
    pub(crate) fn required_content(&mut self, name: &'static str) -> Outcome<String> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// A text where an empty one means "not given".
    pub(crate) fn name(&mut self, name: &'static str) -> Outcome<Option<String>> {
        let text = self.text(name)?;
        Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
    }

    /// A finite number.
    pub(crate) fn number(&mut self, name: &'static str) -> Outcome<Option<f64>> {
        self.take(name, "a number", coerce::number)
    }

    /// A whole number that is not negative.
    pub(crate) fn integer(&mut self, name: &'static str) -> Outcome<Option<u64>> {
        self.take(name, "a whole number, 0 or more", coerce::integer)
    }

    /// True or false.
    pub(crate) fn flag(&mut self, name: &'static str) -> Outcome<Option<bool>> {
        self.take(name, "true or false", coerce::flag)
    }

    /// A list of texts; one text is split into words as a shell does.
    pub(crate) fn words(&mut self, name: &'static str) -> Outcome<Vec<String>> {
        Ok(self.take(name, "a list of texts", coerce::words)?.unwrap_or_default())
    }

    /// A list of package requirements; one text may hold several.
    pub(crate) fn packages(&mut self, name: &'static str) -> Outcome<Vec<String>> {
        Ok(self.take(name, "a list of package names", coerce::packages)?.unwrap_or_default())
    }

    /// A text, or a list of texts.
    pub(crate) fn text_or_list(&mut self, name: &'static str) -> Outcome<Option<TextOrList>> {
        self.take(name, "a text or a list of texts", coerce::text_or_list)
    }

    /// Names and values.
    pub(crate) fn dictionary(&mut self, name: &'static str) -> Outcome<BTreeMap<String, String>> {
        Ok(self.take(name, "an object of names and texts", coerce::dictionary)?.unwrap_or_default())
    }

    /// One of a closed set.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Outcome<Option<T>> {
        let Some(given) = self.name(name)? else { return Ok(None) };
        let asked = given.to_lowercase().replace('-', "_");
        let found = choices.iter().find(|(choice, _)| choice.replace('-', "_") == asked);
        if let Some((_, value)) = found {
            return Ok(Some(*value));
        }
        let names: Vec<&str> = choices.iter().map(|(choice, _)| *choice).collect();
        Err(Failure::argument(
            name,
            format!(
                "`{}` is not one of {}{}",
                short(&given),
                names.join(", "),
                nearest(&given, &names)
            ),
        ))
    }

    fn take<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        read: fn(Value) -> Option<T>,
    ) -> Outcome<Option<T>> {
        let Some(value) = self.given.remove(name) else { return Ok(None) };
        let got = coerce::describe(&value);
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(Failure::argument(
                name,
                format!("expected {expected}, got {got}; example: {}", examples::of(name)),
            )),
        }
    }
}

/// What came where both are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextOrList {
    /// One text.
    Text(String),
    /// A list.
    List(Vec<String>),
}

/// The refusal of a call that lacks an argument.
pub(crate) fn missing(name: &'static str) -> Failure {
    Failure::argument(name, format!("is missing; example: {}", examples::of(name)))
}

fn unknown(tool: &str, name: &str, known: &[&str]) -> Failure {
    let takes = match known {
        [] => "it takes no arguments".to_owned(),
        known => format!("it takes {}", known.join(", ")),
    };
    Failure::argument(
        short(name),
        format!("{tool} has no such argument{}; {takes}", nearest(name, known)),
    )
}

fn nearest(asked: &str, known: &[&str]) -> String {
    let best = known
        .iter()
        .map(|known| (strsim::jaro_winkler(&asked.to_lowercase(), known), known))
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    match best {
        Some((likeness, known)) if likeness > 0.65 => format!("; did you mean `{known}`?"),
        _ => String::new(),
    }
}

fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{self, Schema};

    fn args(given: &Value) -> Outcome<Args> {
        let schema = Schema::default()
            .required("code", schema::text("x"))
            .optional("timeout_s", schema::number("x"))
            .optional("packages", schema::texts("x"))
            .build();
        Args::new("run_code", &schema, given.as_object().cloned())
    }

    #[track_caller]
    fn refused<T: std::fmt::Debug>(outcome: Outcome<T>, parts: &[&str]) {
        let result = outcome.unwrap_err().into_result("r");
        let text = result.content[0].as_text().unwrap().text.clone();
        for part in parts {
            assert!(text.contains(part), "{text:?} lacks {part:?}");
        }
    }

    #[test]
    fn unknown_argument_names_the_nearest() {
        refused(
            args(&json!({ "timeout": 3 })),
            &["error invalid: timeout: ", "did you mean `timeout_s`?", "code, packages, timeout_s"],
        );
        refused(args(&json!({ "zzzz": 3 })), &["zzzz: run_code has no such argument; it takes"]);
        let empty = Schema::default().build();
        let given = json!({ "x": 1 }).as_object().cloned();
        refused(Args::new("list_runtimes", &empty, given), &["it takes no arguments"]);
    }

    #[test]
    fn null_means_not_given() {
        let mut args = args(&json!({ "code": null, "nonsense": null })).unwrap();
        assert_eq!(args.text("code").unwrap(), None);
        refused(args.required_text("code"), &["error invalid: code: is missing; example: "]);
    }

    #[test]
    fn wrong_types_name_field_expectation_and_example() {
        let mut args = args(&json!({ "timeout_s": [1], "code": {}, "packages": 1.5 })).unwrap();
        refused(
            args.number("timeout_s"),
            &["timeout_s: expected a number, got a list; example: 30"],
        );
        refused(args.text("code"), &["code: expected a text, got an object; example: "]);
        refused(args.packages("packages"), &["packages: expected a list of package names"]);
    }

    #[test]
    fn a_wrong_part_of_a_list_or_an_object_is_named() {
        for (given, expected) in [
            (json!({ "A": "1", "B": [2] }), "got an object whose \"B\" is a list; example"),
            (json!({ "A=B": "1" }), "the name \"A=B\", which has = or NUL in it"),
            (json!({ "": "1" }), "got an object with an empty name"),
            (json!({ "A\0": "1" }), "which has = or NUL in it"),
        ] {
            let mut args = args(&json!({ "code": given })).unwrap();
            refused(args.dictionary("code"), &[expected]);
        }
        for (given, expected) in [
            (json!(["a", null]), "got a list whose item 2 is null"),
            (json!([["a"]]), "got a list whose item 1 is a list"),
        ] {
            let mut args = args(&json!({ "code": given })).unwrap();
            refused(args.words("code"), &[expected]);
        }
    }

    #[test]
    fn choices_are_forgiving_in_case_and_name_the_nearest() {
        let choices = [("none", 0), ("packages", 1), ("utf-8", 2)];
        let read = |text: &str| args(&json!({ "code": text })).unwrap().choice("code", &choices);
        assert_eq!(read("NONE").unwrap(), Some(0));
        assert_eq!(read(" UTF-8 ").unwrap(), Some(2));
        assert_eq!(read("utf_8").unwrap(), Some(2));
        assert_eq!(read("").unwrap(), None);
        refused(read("package"), &["`package` is not one of none, packages", "`packages`?"]);
    }

    #[test]
    fn empty_required_text_is_refused() {
        refused(
            args(&json!({ "code": " \n" })).unwrap().required_text("code"),
            &["code: is empty"],
        );
    }
}
