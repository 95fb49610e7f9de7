//! Events from lines of JSON.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::{BadRecord, Pull, Source};
use crate::event::Event;
use crate::time::Timestamp;

/// The longest line that is read unless [`JsonLines::longest_line`] says otherwise, in bytes.
const LONGEST: usize = 16 * 1024 * 1024;

/// The JSON values on the lines of `reader`, one on each, at the time that `time` finds in it.
///
/// Fields that `T` does not name are ignored, whatever stands in them. A line that does not fit is
/// rejected with its number and stops nothing; lines with nothing but blanks are skipped. An input
/// error ends the source as failed. A last line without an end counts. What is compressed is read
/// through a reader that unpacks it, such as `MultiGzDecoder` of the crate `flate2`.
///
/// ```
/// use mizzle_engine::{source::{Pull, Source, json_lines}, time::Timestamp};
/// #[derive(serde::Deserialize)]
/// struct Reading { at: i64, celsius: f64 }
/// let text = "{\"at\":1,\"celsius\":20.5}\n{\"at\":2}\n{\"at\":3,\"celsius\":21,\"room\":\"attic\"}";
/// let mut source = json_lines(text.as_bytes(), |r: &Reading| Timestamp::from_secs(r.at));
/// let (mut seen, mut rejects) = (Vec::new(), Vec::new());
/// let pull = source.pull(10, &mut |event| seen.push(event.value.celsius), &mut rejects);
/// assert_eq!((pull, seen), (Pull::Ended, vec![20.5, 21.0]));
/// assert_eq!((rejects[0].line, &*rejects[0].reason), (2, "missing field `celsius` at column 8"));
/// ```
pub fn json_lines<T, R, F>(reader: R, time: F) -> JsonLines<T, R, F>
where
    T: DeserializeOwned,
    R: Read,
    F: Fn(&T) -> Timestamp,
{
    JsonLines {
        reader: BufReader::new(reader),
        line: Vec::new(),
        number: 0,
        longest: LONGEST,
        time,
        out: PhantomData,
    }
}

/// The values on the lines of the file at `path`: see [`json_lines()`].
///
/// # Errors
/// If the file cannot be opened.
pub fn json_lines_file<T, F>(path: impl AsRef<Path>, time: F) -> io::Result<JsonLines<T, File, F>>
where
    T: DeserializeOwned,
    F: Fn(&T) -> Timestamp,
{
    Ok(json_lines(File::open(path)?, time))
}

/// The values on the lines of each of the files at `paths`: see [`json_lines()`]. They are merged by
/// `Query::sources` or read one after the other by [`sequence`](super::sequence).
///
/// # Errors
/// If a file cannot be opened.
pub fn json_lines_files<T, F>(
    paths: impl IntoIterator<Item = impl AsRef<Path>>,
    time: F,
) -> io::Result<Vec<JsonLines<T, File, F>>>
where
    T: DeserializeOwned,
    F: Fn(&T) -> Timestamp + Clone,
{
    paths.into_iter().map(|path| json_lines_file(path, time.clone())).collect()
}

/// What [`json_lines()`] and [`json_lines_file`] return.
pub struct JsonLines<T, R, F> {
    reader: BufReader<R>,
    /// The line at hand; kept for its room.
    line: Vec<u8>,
    /// Its number.
    number: u64,
    longest: usize,
    time: F,
    out: PhantomData<fn() -> T>,
}

impl<T, R, F> JsonLines<T, R, F> {
    /// How many bytes a line may have, so that one without an end does not fill the memory: 16 MiB
    /// unless said otherwise. A longer one is rejected.
    pub fn longest_line(mut self, bytes: usize) -> Self {
        self.longest = bytes;
        self
    }
}

/// What was found where a line could be.
enum Found {
    Line,
    TooLong,
    End,
}

impl<T: DeserializeOwned, R: Read, F> JsonLines<T, R, F> {
    /// Reads the next line, without what marks its end.
    fn read(&mut self) -> io::Result<Found> {
        self.line.clear();
        let most = self.longest.saturating_add(1);
        let read = self.reader.by_ref().take(most as u64).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(Found::End);
        }
        self.number += 1;
        if self.line.pop_if(|last| *last == b'\n').is_none() && read == most {
            self.reader.skip_until(b'\n')?;
            return Ok(Found::TooLong);
        }
        Ok(Found::Line)
    }

    /// What stands on the line at hand, if anything does.
    fn value(&self) -> Option<Result<T, BadRecord>> {
        let line = match self.line.as_slice() {
            marked if self.number == 1 => marked.strip_prefix(b"\xef\xbb\xbf").unwrap_or(marked),
            line => line,
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let value = serde_json::from_slice(line);
        Some(value.map_err(|error| {
            self.rejected(error.to_string().replacen(" at line 1 column", " at column", 1))
        }))
    }

    fn rejected(&self, reason: String) -> BadRecord {
        BadRecord { input: 0, line: self.number, reason }
    }
}

impl<T, R, F> Source for JsonLines<T, R, F>
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
        for _ in 0..budget {
            match self.read() {
                Ok(Found::Line) => match self.value() {
                    Some(Ok(value)) => emit(Event::new((self.time)(&value), value)),
                    Some(Err(bad)) => rejects.push(bad),
                    None => {}
                },
                Ok(Found::TooLong) => {
                    let reason = format!("longer than {} bytes", self.longest);
                    rejects.push(self.rejected(reason));
                }
                Ok(Found::End) => return Pull::Ended,
                Err(error) => return Pull::Failed(error.to_string()),
            }
        }
        Pull::More
    }
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

    type Seen = (Vec<(i64, String)>, Vec<(u64, String)>, Pull);

    fn drain<S: Source<Item = Reading>>(mut source: S, budget: usize) -> Seen {
        let (mut seen, mut rejects) = (Vec::new(), Vec::new());
        loop {
            let mut emit = |event: Event<Reading>| {
                assert_eq!(event.time, seconds(&event.value));
                seen.push((event.value.at, event.value.room));
            };
            let pull = source.pull(budget, &mut emit, &mut rejects);
            if pull != Pull::More {
                let rejects = rejects.into_iter().map(|bad| (bad.line, bad.reason)).collect();
                return (seen, rejects, pull);
            }
        }
    }

    fn read(text: &'static [u8]) -> Seen {
        let whole = drain(json_lines(text, seconds), usize::MAX);
        assert_eq!(drain(json_lines(text, seconds), 1), whole, "the budget must not matter");
        whole
    }

    fn readings(of: &[(i64, &str)]) -> Vec<(i64, String)> {
        of.iter().map(|&(at, room)| (at, room.to_owned())).collect()
    }

    #[test]
    fn bad_lines_are_rejected_and_stop_nothing() {
        let text = b"{\"at\":1,\"room\":\"a\"}\n\n{\"at\":2\n \t\r\nnonsense\n\
            {\"at\":\"3\",\"room\":\"b\"}\r\n{\"at\":4,\"room\":\"\xff\"}\n[]{}\n{\"room\":\"c\",\"at\":5}\r\n";
        let (seen, rejects, pull) = read(text);
        assert_eq!((seen, pull), (readings(&[(1, "a"), (5, "c")]), Pull::Ended));
        let (lines, reasons): (Vec<_>, Vec<_>) = rejects.into_iter().unzip();
        assert_eq!(lines, [3, 5, 6, 7, 8]);
        assert_eq!(reasons[2], "invalid type: string \"3\", expected i64 at column 9");
    }

    #[test]
    fn a_last_line_without_an_end_counts_and_a_mark_at_the_start_does_not() {
        let text = b"\xef\xbb\xbf{\"at\":1,\"room\":\"a\"}\n{\"at\":2,\"room\":\"b\"}";
        assert_eq!(read(text).0, readings(&[(1, "a"), (2, "b")]));
        assert_eq!(read(b""), (vec![], vec![], Pull::Ended));
        assert_eq!(read(b"\n"), (vec![], vec![], Pull::Ended));
    }

    #[test]
    fn a_line_that_is_too_long_is_rejected_whole() {
        let text =
            b"{\"at\":1,\"room\":\"a\"}\n{\"at\":2,\"room\":\"bb\"}\n{\"at\":3,\"room\":\"c\"}\n";
        let source = json_lines(&text[..], seconds).longest_line(19);
        let (seen, rejects, _) = drain(source, 2);
        assert_eq!(seen, readings(&[(1, "a"), (3, "c")]));
        assert_eq!(rejects, [(2, "longer than 19 bytes".to_owned())]);
    }

    #[test]
    fn an_input_error_fails_the_source() {
        struct Broken;
        impl io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let begun = io::Read::chain(&b"{\"at\":1,\"room\":\"a\"}\n{\"at\":2"[..], Broken);
        let (seen, rejects, pull) = drain(json_lines(begun, seconds), 5);
        assert_eq!((seen, rejects.len()), (readings(&[(1, "a")]), 0));
        assert_eq!(pull, Pull::Failed("the disk is gone".to_owned()));
        assert!(json_lines_file::<Reading, _>("/nonexistent/readings.jsonl", seconds).is_err());
    }
}
