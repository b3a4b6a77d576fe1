//! Many texts in one contiguous buffer: one allocation for each text would take as long as its
//! consumer takes to copy it.

/// The texts, in their order.
#[derive(Default)]
pub struct StringList {
    all: String,
    ends: Vec<usize>,
}

impl StringList {
    /// Appends one text, of these parts.
    pub fn push(&mut self, parts: &[&str]) {
        self.all.extend(parts.iter().copied());
        self.ends.push(self.all.len());
    }

    /// The texts.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let text = self.all.get(from..*end).unwrap_or_default();
            from = *end;
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_given_as_they_were_pushed() {
        let mut list = StringList::default();
        assert_eq!(list.iter().len(), 0);
        for parts in [&["a", "/", "b"][..], &[], &["c"]] {
            list.push(parts);
        }
        assert_eq!(list.iter().collect::<Vec<_>>(), ["a/b", "", "c"]);
    }
}
