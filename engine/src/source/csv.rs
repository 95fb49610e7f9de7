//! Events from lines of comma-separated values.

use std::fs::File;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::path::Path;

use ::csv::ErrorKind;
use serde::de::DeserializeOwned;

use super::{BadRecord, Pull, Source};
use crate::event::Event;
use crate::time::Timestamp;

/// The records of `reader`, each at the time that `time` finds in it. The first line names the
/// fields, unless [`has_headers`](Csv::has_headers) says otherwise.
///
/// A line that does not fit, because of its number of fields, what stands in one, or because it is
/// not UTF-8, is rejected with its number and stops nothing. An input or output error ends the
/// source as failed. A last line without an end counts.
///
/// ```
/// use mizzle_engine::{source::{Pull, Source, csv}, time::Timestamp};
/// #[derive(serde::Deserialize)]
/// struct Reading { at: i64, celsius: f64 }
/// let text = "at,celsius\n1,20.5\n2,warm\n3,21";
/// let mut source = csv(text.as_bytes(), |r: &Reading| Timestamp::from_secs(r.at));
/// let (mut seen, mut rejects) = (Vec::new(), Vec::new());
/// let pull = source.pull(10, &mut |event| seen.push(event.value.celsius), &mut rejects);
/// assert_eq!((pull, seen), (Pull::Ended, vec![20.5, 21.0]));
/// assert_eq!(rejects[0].line, 3);
/// ```
pub fn csv<T, R, F>(reader: R, time: F) -> Csv<T, R, F>
where
    T: DeserializeOwned,
    R: Read,
    F: Fn(&T) -> Timestamp,
{
    Csv {
        unopened: Some(reader),
        lines: None,
        delimiter: b',',
        has_headers: true,
        time,
        out: PhantomData,
    }
}

/// The records of the file at `path`: see [`csv()`].
///
/// # Errors
/// If the file cannot be opened.
pub fn csv_file<T, F>(path: impl AsRef<Path>, time: F) -> io::Result<Csv<T, File, F>>
where
    T: DeserializeOwned,
    F: Fn(&T) -> Timestamp,
{
    Ok(csv(File::open(path)?, time))
}

/// The records of each of the files at `paths`: see [`csv()`]. They are merged by
/// `Query::sources` or read one after the other by [`sequence`](super::sequence).
///
/// # Errors
/// If a file cannot be opened.
pub fn csv_files<T, F>(
    paths: impl IntoIterator<Item = impl AsRef<Path>>,
    time: F,
) -> io::Result<Vec<Csv<T, File, F>>>
where
    T: DeserializeOwned,
    F: Fn(&T) -> Timestamp + Clone,
{
    paths.into_iter().map(|path| csv_file(path, time.clone())).collect()
}

/// What [`csv()`] and [`csv_file`] return.
pub struct Csv<T, R, F> {
    /// Opened by the first pull, when all options are known.
    unopened: Option<R>,
    lines: Option<Lines<R>>,
    delimiter: u8,
    has_headers: bool,
    time: F,
    out: PhantomData<fn() -> T>,
}

impl<T, R, F> Csv<T, R, F> {
    /// What separates fields: a comma unless said otherwise.
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// Whether the first line names the fields: it does unless said otherwise. Without names fields
    /// go by their position.
    pub fn has_headers(mut self, has_headers: bool) -> Self {
        self.has_headers = has_headers;
        self
    }
}

impl<T, R: Read, F> Csv<T, R, F> {
    /// Opens the reader if that has not been done.
    fn open(&mut self) -> Result<(), ::csv::Error> {
        if let Some(reader) = self.unopened.take() {
            let reader = ::csv::ReaderBuilder::new()
                .delimiter(self.delimiter)
                .has_headers(self.has_headers)
                .from_reader(reader);
            self.lines = Some(Lines::start(reader)?);
        }
        Ok(())
    }
}

impl<T, R, F> Source for Csv<T, R, F>
where
    T: DeserializeOwned + Send + 'static,
    R: Read + Send + 'static,
    F: Fn(&T) -> Timestamp + Send + 'static,
{
    type Item = T;

    fn pull(
        &mut self,
        budget: usize,
        emit: &mut impl FnMut(Event<T>),
        rejects: &mut Vec<BadRecord>,
    ) -> Pull {
        if let Err(error) = self.open() {
            return Pull::Failed(error.to_string());
        }
        let (Some(lines), time) = (&mut self.lines, &self.time) else { return Pull::Ended };
        for _ in 0..budget {
            match lines.next::<T>() {
                Ok(Some(value)) => emit(Event::new(time(&value), value)),
                Ok(None) => return Pull::Ended,
                Err(error) if error.is_io_error() => return Pull::Failed(error.to_string()),
                Err(error) => rejects.push(lines.rejected(&error)),
            }
        }
        Pull::More
    }
}

/// An open reader with the record that it was last asked for.
struct Lines<R> {
    reader: ::csv::Reader<R>,
    names: Option<::csv::ByteRecord>,
    record: ::csv::ByteRecord,
    /// The reader counts a line when it has read the line feed. Where lines end in a carriage return
    /// as well, it has a record before it has read that.
    counts_late: bool,
}

impl<R: Read> Lines<R> {
    fn start(mut reader: ::csv::Reader<R>) -> Result<Self, ::csv::Error> {
        let first = reader.byte_headers()?.clone();
        let counts_late = reader.position().line() == 1 + feeds(&first);
        let names = reader.has_headers().then_some(first);
        Ok(Self { reader, names, record: ::csv::ByteRecord::new(), counts_late })
    }

    fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ::csv::Error> {
        if !self.reader.read_byte_record(&mut self.record)? {
            return Ok(None);
        }
        self.record.deserialize(self.names.as_ref()).map(Some)
    }

    fn rejected(&self, error: &::csv::Error) -> BadRecord {
        let reason = match error.kind() {
            ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("{len} fields where there should be {expected_len}")
            }
            ErrorKind::Deserialize { err, .. } => match err.field() {
                Some(field) => format!("{}: {}", self.name(field as usize), err.kind()),
                None => err.kind().to_string(),
            },
            _ => error.to_string(),
        };
        BadRecord { input: 0, line: self.line(), reason }
    }

    fn name(&self, field: usize) -> String {
        match self.names.as_ref().and_then(|names| names.get(field)) {
            Some(name) => format!("field `{}`", String::from_utf8_lossy(name)),
            None => format!("field {}", field + 1),
        }
    }

    /// The line on which the record begins. Where the reader says that it begins there may be empty
    /// lines or the rest of the last line's end, so this counts back from where it ended.
    fn line(&self) -> u64 {
        let end = self.reader.position().line() - feeds(&self.record);
        let begin = self.record.position().map_or(end, ::csv::Position::line);
        // The last line may have no end.
        if self.counts_late || end == begin { end } else { end - 1 }
    }
}

/// Line feeds inside the fields of a record.
fn feeds(record: &::csv::ByteRecord) -> u64 {
    record.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Reading {
        at: i64,
        room: String,
    }

    fn seconds(reading: &Reading) -> Timestamp {
        Timestamp::from_secs(reading.at)
    }

    type Read = (Vec<Event<Reading>>, Vec<(u64, String)>, Pull);

    fn drain<S: Source<Item = Reading>>(mut source: S, budget: usize) -> Read {
        let (mut seen, mut rejects) = (Vec::new(), Vec::new());
        loop {
            let pull = source.pull(budget, &mut |event| seen.push(event), &mut rejects);
            if pull != Pull::More {
                let rejects = rejects.into_iter().map(|bad| (bad.line, bad.reason)).collect();
                return (seen, rejects, pull);
            }
        }
    }

    fn read(text: &'static [u8]) -> Read {
        let whole = drain(csv(text, seconds), usize::MAX);
        assert_eq!(drain(csv(text, seconds), 1), whole, "the budget must not matter");
        whole
    }

    fn rooms(events: &[Event<Reading>]) -> Vec<&str> {
        events.iter().map(|event| event.value.room.as_str()).collect()
    }

    #[test]
    fn an_event_has_the_time_in_its_record() {
        let (seen, rejects, pull) = read(b"room,at\nattic,7\n");
        let expected = Reading { at: 7, room: "attic".to_owned() };
        assert_eq!(seen, [Event::new(Timestamp::from_secs(7), expected)]);
        assert_eq!((rejects, pull), (vec![], Pull::Ended));
    }

    #[test]
    fn bad_lines_are_rejected_and_stop_nothing() {
        let (seen, rejects, pull) =
            read(b"at,room\n1,a\n2\n3,b,c\nx,d\n5,\xff\n6,\"two\nlines\"\n7,e,\n8,f\n");
        assert_eq!((rooms(&seen), pull), (vec!["a", "two\nlines", "f"], Pull::Ended));
        let (lines, reasons): (Vec<_>, Vec<_>) = rejects.into_iter().unzip();
        assert_eq!(lines, [3, 4, 5, 6, 9]);
        assert_eq!(reasons[0], "1 fields where there should be 2");
        assert_eq!(reasons[2], "field `at`: invalid digit found in string");
        assert!(reasons[3].starts_with("field `room`: invalid utf-8"), "{}", reasons[3]);
    }

    #[test]
    fn lines_are_counted_over_empty_ones_and_with_carriage_returns() {
        let bad = |text| read(text).1.into_iter().map(|(line, _)| line).collect::<Vec<_>>();
        assert_eq!(bad(b"at,room\n\n\n3\n\n5,a\n6\n"), [4, 7]);
        assert_eq!(bad(b"at,room\r\n2\r\n3,\"a\r\nb\"\r\n5\r\n\r\n7,a\r\n8"), [2, 5, 8]);
        assert_eq!(bad(b"at,room\n2,a\n3"), [3]);
    }

    #[test]
    fn a_last_line_without_an_end_counts() {
        assert_eq!(rooms(&read(b"at,room\n1,a\n2,b").0), ["a", "b"]);
        assert_eq!(rooms(&read(b"\xef\xbb\xbfat,room\r\n1,a").0), ["a"]);
    }

    #[test]
    fn nothing_is_fine() {
        assert_eq!(read(b""), (vec![], vec![], Pull::Ended));
        assert_eq!(read(b"at,room\n"), (vec![], vec![], Pull::Ended));
        assert_eq!(read(b"at,room"), (vec![], vec![], Pull::Ended));
    }

    #[test]
    fn without_names_fields_go_by_position() {
        let source = csv(&b"1;a\n2;b\n3\n"[..], seconds).delimiter(b';').has_headers(false);
        let (seen, rejects, _) = drain(source, 2);
        assert_eq!(rooms(&seen), ["a", "b"]);
        assert_eq!(rejects[0].0, 3);
    }

    #[test]
    fn an_input_error_fails_the_source() {
        struct Broken;
        impl io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let Pull::Failed(reason) = drain(csv(Broken, seconds), 5).2 else { panic!("no failure") };
        assert!(reason.contains("the disk is gone"), "{reason}");
        let begun = io::Read::chain(&b"at,room\n1,a\n2"[..], Broken);
        let (seen, rejects, pull) = drain(csv(begun, seconds), 5);
        assert_eq!((rooms(&seen), rejects.len()), (vec!["a"], 0));
        assert!(matches!(pull, Pull::Failed(_)));
        assert!(csv_file::<Reading, _>("/nonexistent/readings.csv", seconds).is_err());
    }
}
