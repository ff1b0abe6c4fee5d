"""Reports of profiles are sealed: a digest, and a signature of a shared key."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.profiling.core.report import UntrustedReportError, canonical, seal, verify

KEY = b"k" * 32
REPORT: dict[str, Any] = {"command": ["true"], "sources": [{"score": 12.5}], "note": None}


def test_a_sealed_report_is_what_was_sealed() -> None:
    sealed = json.loads(json.dumps(seal(REPORT, KEY)))
    assert verify(sealed, KEY) == REPORT
    assert verify(sealed, None) == REPORT


def test_the_digest_is_the_sha256_of_canonical_json() -> None:
    assert canonical({"b": 1, "a": "é"}) == b'{"a":"\\u00e9","b":1}'
    # printf '{}' | sha256sum
    assert seal({}, None)["digest"] == (
        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )


def test_a_changed_report_is_not_trusted() -> None:
    sealed = seal(REPORT, KEY) | {"sources": [{"score": 99.0}]}
    with pytest.raises(UntrustedReportError, match="digest"):
        verify(sealed, KEY)


def test_a_changed_report_with_a_new_digest_is_not_trusted() -> None:
    changed = seal(REPORT | {"sources": []}, None) | {"signature": seal(REPORT, KEY)["signature"]}
    assert verify(changed, None)["sources"] == []
    with pytest.raises(UntrustedReportError, match="not of this key"):
        verify(changed, KEY)


def test_another_key_does_not_verify() -> None:
    with pytest.raises(UntrustedReportError, match="not of this key"):
        verify(seal(REPORT, KEY), b"x" * 32)


@pytest.mark.parametrize("signature", [None, "text", {"algorithm": "none", "value": ""}])
def test_a_missing_signature_is_not_trusted(signature: Any) -> None:
    with pytest.raises(UntrustedReportError, match="no hmac-sha256 signature"):
        verify(seal(REPORT, None) | {"signature": signature}, KEY)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        seal(REPORT, b"short")


@given(
    st.dictionaries(
        st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    )
)
def test_a_report_survives_json_in_any_order(values: dict[str, Any]) -> None:
    report = {"values": values}
    text = json.dumps(seal(report, KEY), sort_keys=True)
    assert verify(json.loads(text), KEY) == json.loads(json.dumps(report))
