//! Writes lines of comma-separated values.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::{Sink, SinkError};
use crate::event::Event;

/// A sink that writes each value as a line to `writer`, after a first line with the names of its
/// fields. The time of an event is written only if the value holds it. What was written leaves for
/// `writer`, and `writer` is flushed, after each batch.
///
/// ```
/// use mizzle_engine::{Event, sink::{Sink, csv}, time::Timestamp};
/// #[derive(serde::Serialize)]
/// struct Mean { room: &'static str, celsius: f64 }
/// let mut sink = csv(std::io::stdout());
/// sink.event(Event::new(Timestamp::EPOCH, Mean { room: "attic", celsius: 20.5 }));
/// Sink::<Mean>::flush(&mut sink).unwrap();
/// ```
pub fn csv<W: Write>(writer: W) -> Csv<W> {
    Csv { writer: ::csv::Writer::from_writer(writer), error: None }
}

/// A sink that writes to a new file at `path`: see [`csv()`].
///
/// # Errors
/// If the file cannot be created.
pub fn csv_file(path: impl AsRef<Path>) -> io::Result<Csv<File>> {
    Ok(csv(File::create(path)?))
}

/// What [`csv()`] and [`csv_file`] return.
pub struct Csv<W: Write> {
    writer: ::csv::Writer<W>,
    /// The first thing that went wrong and was not reported yet.
    error: Option<::csv::Error>,
}

impl<T, W> Sink<T> for Csv<W>
where
    T: Serialize,
    W: Write + Send + 'static,
{
    fn event(&mut self, event: Event<T>) {
        if self.error.is_none() {
            self.error = self.writer.serialize(event.value).err();
        }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if let Some(error) = self.error.take() {
            return Err(SinkError::new(error));
        }
        self.writer.flush().map_err(SinkError::new)
    }

    fn end(&mut self) -> Result<(), SinkError> {
        Sink::<T>::flush(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::disk;
    use super::*;
    use crate::time::Timestamp;

    #[derive(Serialize)]
    struct Row {
        room: &'static str,
        count: u32,
    }

    fn row(count: u32) -> Event<Row> {
        Event::new(Timestamp::EPOCH, Row { room: "north, up", count })
    }

    #[test]
    fn a_batch_is_on_disk_after_its_flush() {
        let disk = disk(1_000);
        let mut sink = csv(disk.clone());
        sink.event(row(1));
        Sink::<Row>::flush(&mut sink).unwrap();
        assert_eq!(*disk.written.lock(), b"room,count\n\"north, up\",1\n");
        sink.event(row(2));
        Sink::<Row>::end(&mut sink).unwrap();
        assert!(disk.written.lock().ends_with(b",1\n\"north, up\",2\n"));
    }

    #[test]
    fn what_cannot_be_written_surfaces_at_the_flush() {
        let mut sink = csv(disk(3));
        sink.event(row(1));
        let error = Sink::<Row>::flush(&mut sink).unwrap_err().to_string();
        assert!(error.contains("the disk is full"), "{error}");
        let mut sink = csv(disk(1_000));
        sink.event(Event::new(Timestamp::EPOCH, std::collections::BTreeMap::from([(1, 2)])));
        assert!(Sink::<std::collections::BTreeMap<i32, i32>>::flush(&mut sink).is_err());
    }
}
