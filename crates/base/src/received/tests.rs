//! Compares the fields of a request with a map of the same fields.

use proptest::prelude::*;

use super::*;

/// Names that are alike: in their tags, in their ends, and in their lengths.
const NAMES: [&str; 7] = [
    "Host",
    "X-Request-Id",
    "accept",
    "Accept-Encoding",
    "a",
    "x-a",
    "X-B",
];

/// A line of a head: the number of its name, whether the name is sent in upper case, the blanks in front of the value, and the value.
type SentLine = (usize, bool, String, String);

/// An edit of fields, by the numbers of their names.
#[derive(Clone, Debug)]
enum Edit {
    Insert(usize),
    Append(usize),
    Remove(usize),
    RemoveAll(Vec<usize>),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let name = 0..NAMES.len();
    let edit = prop_oneof![
        name.clone().prop_map(Edit::Insert),
        name.clone().prop_map(Edit::Append),
        name.clone().prop_map(Edit::Remove),
        prop::collection::vec(name, 0..4).prop_map(Edit::RemoveAll),
    ];
    prop::collection::vec(edit, 0..8)
}

fn name(number: usize) -> HeaderName {
    HeaderName::from_bytes(NAMES[number].as_bytes()).unwrap()
}

/// Returns the fields of a head that was received with these lines, and the map of the same head.
fn received(lines: &[SentLine]) -> (ReceivedFields, HeaderMap) {
    let (mut read, mut places, mut map) =
        (BytesMut::from(&b"GET / "[..]), vec![], HeaderMap::new());
    for (number, is_upper, blanks, value) in lines {
        let sent = match is_upper {
            true => NAMES[*number].to_uppercase(),
            false => NAMES[*number].to_owned(),
        };
        let start = read.len();
        read.extend_from_slice(format!("{sent}:{blanks}{value}\r\n").as_bytes());
        let value_start = start + sent.len() + 1 + blanks.len();
        places.push(FieldPlaces {
            name: start..start + sent.len(),
            value: value_start..value_start + value.len(),
            is_usual: blanks == " ",
        });
        map.append(name(*number), HeaderValue::from_str(value).unwrap());
    }
    (
        ReceivedFields::in_bytes(read, places.into_iter()).unwrap(),
        map,
    )
}

/// Checks that each query has the same answer.
fn check(fields: &ReceivedFields, map: &HeaderMap) -> Result<(), TestCaseError> {
    prop_assert_eq!(fields.len(), map.len());
    for field in fields.lines() {
        let written = written(field.name, field.value);
        prop_assert!(field.line.is_none_or(|line| line == written));
    }
    prop_assert_eq!(fields.is_empty(), map.is_empty());
    let lengths = map
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4);
    prop_assert_eq!(fields.written_length(), lengths.sum::<usize>());
    prop_assert_eq!(fields.names().count(), map.keys_len());
    prop_assert!(
        map.keys()
            .all(|name| fields.names().any(|own| own == *name))
    );
    for number in 0..NAMES.len() {
        let name = name(number);
        prop_assert_eq!(fields.contains_key(&name), map.contains_key(&name));
        prop_assert_eq!(fields.get(&name), map.get(&name).map(FieldValue::from));
        let expected: Vec<_> = map.get_all(&name).iter().map(FieldValue::from).collect();
        prop_assert_eq!(fields.get_all(&name).collect::<Vec<_>>(), &*expected);
        let backwards: Vec<_> = fields.get_all(&name).rev().collect();
        prop_assert!(backwards.iter().eq(expected.iter().rev()));
        let named = fields.iter().filter(|(own, _)| *own == name);
        prop_assert_eq!(named.map(|(_, value)| value).collect::<Vec<_>>(), expected);
        let one = fields.map_of(&name);
        prop_assert!(one.get_all(&name).iter().eq(map.get_all(&name)));
    }
    prop_assert_eq!(&fields.to_map(), map);
    Ok(())
}

/// Returns the line of a field, as HTTP/1.1 writes it.
fn written(name: FieldName<'_>, value: FieldValue<'_>) -> Vec<u8> {
    [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat()
}

fn lines() -> impl Strategy<Value = Vec<SentLine>> {
    let line = (0..NAMES.len(), any::<bool>(), "[ \t]{0,2}", "[!-~]{0,5}");
    prop::collection::vec(line, 0..12)
}

proptest! {
    /// Goal: received fields are a map to whoever reads or edits them. Method: heads with repeated names in both cases, of which any are
    /// edited; every query of both, and the order of the fields as received.
    #[test]
    fn fields_in_bytes_are_those_of_a_map(lines in lines(), edits in edits()) {
        let (mut fields, mut map) = received(&lines);
        let order = fields.iter().map(|(name, value)| (name.to_header_name(), value.to_header_value()));
        let expected = map.iter().map(|(name, value)| (name.clone(), value.clone()));
        prop_assert!(order.eq(expected));
        let usual = lines.iter().filter(|(_, _, blanks, _)| blanks == " ").count();
        prop_assert_eq!(fields.lines().filter(|field| field.line.is_some()).count(), usual);
        check(&fields, &map)?;
        for (number, edit) in edits.iter().enumerate() {
            let value = HeaderValue::from(number);
            match edit {
                Edit::Insert(at) => {
                    fields.insert(name(*at), value.clone());
                    map.insert(name(*at), value);
                }
                Edit::Append(at) => {
                    fields.append(name(*at), value.clone());
                    map.append(name(*at), value);
                }
                Edit::Remove(at) => {
                    fields.remove(&name(*at));
                    map.remove(name(*at));
                }
                Edit::RemoveAll(all) => {
                    fields.remove_all(all.iter().map(|at| name(*at)).collect());
                    for at in all {
                        map.remove(name(*at));
                    }
                }
            }
            check(&fields, &map)?;
        }
    }

    /// Goal: the fields of a map are the map's, in its order, and so are those of its fields one by one. Method: maps with repeated names.
    #[test]
    fn fields_of_a_map_are_the_same(lines in lines()) {
        let (_, map) = received(&lines);
        let one_by_one = lines.iter().map(|(at, _, _, value)| (name(*at), HeaderValue::from_str(value).unwrap()));
        for fields in [ReceivedFields::from(map.clone()), one_by_one.collect()] {
            let order = fields.iter().map(|(name, value)| (name.to_header_name(), value.to_header_value()));
            prop_assert!(order.eq(map.iter().map(|(name, value)| (name.clone(), value.clone()))));
            prop_assert!(fields.lines().all(|field| field.line.is_some()));
            check(&fields, &map)?;
        }
    }
}

/// Goal: a head that is longer than the room for it is whole. Method: a long value in front of short ones, and behind one.
#[test]
fn a_long_value_of_a_map_is_whole() {
    let long = "a".repeat(4 * USUAL_LINE);
    for values in [[long.as_str(), "b", "c"], ["b", long.as_str(), "c"]] {
        let fields = values.iter().zip(0..);
        let fields =
            fields.map(|(value, number)| (name(number), HeaderValue::from_str(value).unwrap()));
        let map = HeaderMap::from_iter(fields);
        let fields = ReceivedFields::from(map.clone());
        assert_eq!(fields.to_map(), map);
        assert_eq!(fields.written_length(), fields.bytes().len());
    }
}

fn places(name: Range<usize>, value: Range<usize>) -> FieldPlaces {
    FieldPlaces {
        name,
        value,
        is_usual: false,
    }
}

/// Goal: places beyond the bytes and names beyond their bound are no fields. Method: one of each.
#[test]
fn what_is_no_field_is_rejected() {
    let read = BytesMut::from(&b"a: b"[..]);
    for (name, value, is_field) in [(0..1, 3..4, true), (3..5, 3..4, false), (0..1, 3..5, false)] {
        let fields = ReceivedFields::in_bytes(read.clone(), [places(name, value)].into_iter());
        assert_eq!(fields.is_some(), is_field);
    }
    let long = BytesMut::from(&vec![b'a'; 1 << 16][..]);
    let length = long.len();
    assert!(ReceivedFields::in_bytes(long, [places(0..length, 0..0)].into_iter()).is_none());
}
