//! Argument schemas in the small part of JSON Schema that every provider takes:
//! an object of plain properties, arrays with `items`, enums as lists of strings.
//! No `$ref`, no unions, no type lists, no `format`.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

/// The arguments of one tool, in the making.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

impl Schema {
    /// Adds an argument that must be there.
    pub(crate) fn required(mut self, name: &'static str, property: Value) -> Self {
        self.required.push(name);
        self.optional(name, property)
    }

    /// Adds an argument that may be there.
    pub(crate) fn optional(mut self, name: &'static str, property: Value) -> Self {
        self.properties.insert(name.to_owned(), property);
        self
    }

    /// The finished schema.
    pub(crate) fn build(self) -> Arc<JsonObject> {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), json!(self.required));
        }
        Arc::new(schema)
    }
}

pub(crate) fn text(description: impl Into<String>) -> Value {
    json!({ "type": "string", "description": description.into() })
}

pub(crate) fn choice(choices: &[&str], description: impl Into<String>) -> Value {
    json!({ "type": "string", "enum": choices, "description": description.into() })
}

pub(crate) fn number(description: impl Into<String>) -> Value {
    json!({ "type": "number", "description": description.into() })
}

pub(crate) fn integer(description: impl Into<String>) -> Value {
    json!({ "type": "integer", "description": description.into() })
}

pub(crate) fn flag(description: impl Into<String>) -> Value {
    json!({ "type": "boolean", "description": description.into() })
}

pub(crate) fn texts(description: impl Into<String>) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description.into() })
}

/// Names to texts.
pub(crate) fn dictionary(description: impl Into<String>) -> Value {
    json!({
        "type": "object",
        "properties": {},
        "additionalProperties": { "type": "string" },
        "description": description.into(),
    })
}
