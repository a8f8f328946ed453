//! The languages of explanations. Stable words, errors and logs are English.

/// A language of explanations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Simplified Chinese.
    Zh,
}

/// One text in both languages. The arguments of `format!` follow, and both use all of them:
/// `say!(lang, "kept free for {job}", "已为 {job} 预留")`.
#[macro_export]
macro_rules! say {
    ($lang:expr, $en:literal, $zh:literal $(, $name:ident = $value:expr)* $(,)?) => {
        match $lang {
            $crate::Lang::En => format!($en $(, $name = $value)*),
            $crate::Lang::Zh => format!($zh $(, $name = $value)*),
        }
    };
}

impl Lang {
    /// Both languages.
    pub const ALL: [Lang; 2] = [Lang::En, Lang::Zh];

    /// The name in `Accept-Language` and `--lang`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.pick("en", "zh")
    }

    /// The language of `zh`, `zh-CN` (HTTP) or `zh_CN.UTF-8` (locales), if it is supported.
    #[must_use]
    pub fn of(tag: &str) -> Option<Self> {
        let language = tag.trim().split(['-', '_', '.', '@']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|lang| lang.as_str().eq_ignore_ascii_case(language))
    }

    /// A text without values.
    #[must_use]
    pub fn pick(self, en: &'static str, zh: &'static str) -> &'static str {
        match self {
            Lang::En => en,
            Lang::Zh => zh,
        }
    }

    /// A length of time for people: `8 s`, `41 min`, `2 h 08 min`, `3 d 12 h`, `14 d`.
    #[must_use]
    pub fn length(self, seconds: f64) -> String {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates; never negative"
        )]
        let whole = seconds.round() as u64;
        let minutes = (whole + 30) / 60;
        let hours = (minutes + 30) / 60;
        match whole {
            0..100 => say!(self, "{whole} s", "{whole} 秒"),
            100..5_400 => say!(self, "{minutes} min", "{minutes} 分钟"),
            5_400..86_400 => {
                let (h, m) = (minutes / 60, minutes % 60);
                match m {
                    0 => say!(self, "{h} h", "{h} 小时"),
                    _ => say!(self, "{h} h {m:02} min", "{h} 小时 {m:02} 分"),
                }
            }
            _ if hours.is_multiple_of(24) || hours > 96 => {
                let days = (hours + 12) / 24;
                say!(self, "{days} d", "{days} 天")
            }
            _ => {
                let (d, h) = (hours / 24, hours % 24);
                say!(self, "{d} d {h} h", "{d} 天 {h} 小时")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_known_by_its_tag_and_by_its_locale() {
        for tag in ["zh", "ZH-cn", " zh-Hans-CN", "zh_CN.UTF-8", "zh_TW@radical", "zh.utf8"] {
            assert_eq!(Lang::of(tag), Some(Lang::Zh), "{tag}");
        }
        assert_eq!(Lang::of("en_US.UTF-8"), Some(Lang::En));
        for tag in ["", "C", "POSIX", "de", "zhx", "*", "z"] {
            assert_eq!(Lang::of(tag), None, "{tag}");
        }
    }
    #[test]
    fn lengths_are_short() {
        for (seconds, en, zh) in [
            (0.4, "0 s", "0 秒"),
            (41.2, "41 s", "41 秒"),
            (2_460.0, "41 min", "41 分钟"),
            (7_680.0, "2 h 08 min", "2 小时 08 分"),
            (7_210.0, "2 h", "2 小时"),
            (302_400.0, "3 d 12 h", "3 天 12 小时"),
            (1_209_000.0, "14 d", "14 天"),
        ] {
            assert_eq!((Lang::En.length(seconds).as_str(), Lang::Zh.length(seconds).as_str()), (en, zh));
        }
    }
}
