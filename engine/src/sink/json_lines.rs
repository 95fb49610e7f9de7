//! Writes lines of JSON.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::{Sink, SinkError};
use crate::event::Event;

/// So many bytes leave without waiting for the end of the batch.
const MANY: usize = 64 * 1024;

/// A sink that writes each value as JSON on a line of its own to `writer`. The time of an event is
/// written only if the value holds it. What was written leaves for `writer`, and `writer` is flushed,
/// after each batch. JSON has no NaN and no infinity: they are written as `null`.
///
/// ```
/// use mizzle_engine::{Event, sink::{Sink, json_lines}, time::Timestamp};
/// #[derive(serde::Serialize)]
/// struct Mean { room: &'static str, celsius: f64 }
/// let mut sink = json_lines(std::io::stdout());
/// sink.event(Event::new(Timestamp::EPOCH, Mean { room: "attic", celsius: 20.5 }));
/// Sink::<Mean>::flush(&mut sink).unwrap();
/// ```
pub fn json_lines<W: Write>(writer: W) -> JsonLines<W> {
    JsonLines { writer, lines: Vec::new(), error: None }
}

/// A sink that writes to a new file at `path`: see [`json_lines()`].
///
/// # Errors
/// If the file cannot be created.
pub fn json_lines_file(path: impl AsRef<Path>) -> io::Result<JsonLines<File>> {
    Ok(json_lines(File::create(path)?))
}

/// What [`json_lines()`] and [`json_lines_file`] return.
pub struct JsonLines<W> {
    writer: W,
    /// Whole lines that have not left.
    lines: Vec<u8>,
    /// The first thing that went wrong and was not reported yet.
    error: Option<SinkError>,
}

impl<W: Write> JsonLines<W> {
    fn add(&mut self, value: &impl Serialize) -> Result<(), SinkError> {
        let whole = self.lines.len();
        if let Err(error) = serde_json::to_writer(&mut self.lines, value) {
            self.lines.truncate(whole);
            return Err(SinkError::new(error));
        }
        self.lines.push(b'\n');
        if self.lines.len() >= MANY { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), SinkError> {
        let written = self.writer.write_all(&self.lines);
        self.lines.clear();
        written.map_err(SinkError::new)
    }
}

impl<T, W> Sink<T> for JsonLines<W>
where
    T: Serialize,
    W: Write + Send + 'static,
{
    fn event(&mut self, event: Event<T>) {
        if self.error.is_none() {
            self.error = self.add(&event.value).err();
        }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.write()?;
        self.writer.flush().map_err(SinkError::new)?;
        self.error.take().map_or(Ok(()), Err)
    }

    fn end(&mut self) -> Result<(), SinkError> {
        Sink::<T>::flush(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::disk::disk;
    use super::*;
    use crate::time::Timestamp;

    fn event<T>(value: T) -> Event<T> {
        Event::new(Timestamp::EPOCH, value)
    }

    #[test]
    fn a_batch_is_on_disk_after_its_flush() {
        let disk = disk(1_000);
        let mut sink = json_lines(disk.clone());
        sink.event(event(Some("a\nb")));
        assert_eq!(*disk.written.lock(), b"");
        Sink::<Option<&str>>::flush(&mut sink).unwrap();
        assert_eq!(*disk.written.lock(), b"\"a\\nb\"\n");
        sink.event(event(None::<&str>));
        Sink::<Option<&str>>::end(&mut sink).unwrap();
        assert!(disk.written.lock().ends_with(b"\"\nnull\n"));
    }

    #[test]
    fn much_leaves_before_the_end_of_its_batch() {
        let disk = disk(usize::MAX);
        let mut sink = json_lines(disk.clone());
        sink.event(event("x".repeat(MANY)));
        assert_eq!(disk.written.lock().len(), MANY + 3);
    }

    #[test]
    fn what_cannot_be_written_surfaces_at_the_flush_and_leaves_whole_lines() {
        let mut sink = json_lines(disk(3));
        sink.event(event(1_000));
        let error = Sink::<i32>::flush(&mut sink).unwrap_err().to_string();
        assert!(error.contains("the disk is full"), "{error}");
        let disk = disk(1_000);
        let mut sink = json_lines(disk.clone());
        // The keys of a JSON object are strings.
        let maps = [BTreeMap::new(), BTreeMap::from([(vec![1], 2)]), BTreeMap::new()];
        maps.into_iter().for_each(|map| sink.event(event(map)));
        assert!(Sink::<BTreeMap<Vec<i32>, i32>>::flush(&mut sink).is_err());
        assert_eq!(*disk.written.lock(), b"{}\n");
    }
}
