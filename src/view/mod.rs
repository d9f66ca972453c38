//! Reports as text and as JSON: functions of data and a writer, nothing else.

pub mod books;
pub mod doctor;
pub mod json;
mod page;
pub mod text;
pub mod theme;
pub mod trace;
