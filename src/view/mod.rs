//! Reports as text and as JSON: functions of data and a writer, nothing else.

pub mod json;
pub mod text;
pub mod theme;
