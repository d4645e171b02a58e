"""Mails as programs really write them: headers, bodies, quotes and files; and mails that do harm."""

import base64
import time
from contextlib import suppress
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import EmptyDocument, SourceError
from headwater.parsers.mail import MailParser
from headwater.types import Blob, Document


def parse(data: bytes | EmailMessage, mime: str = "message/rfc822") -> Document:
    raw = data if isinstance(data, bytes) else data.as_bytes()
    return MailParser().parse(Blob(uri="/mails/one.eml", data=raw, mime=mime, modified="2026-12-01"))


def piece(document: Document, span: tuple[int, int]) -> str:
    return document.text[span[0] : span[1]]


def quotes(document: Document) -> list[str]:
    return [piece(document, block.span) for block in document.blocks if block.kind == "quote"]


def letter(text: str = "您好，\n附件是第三季度报告。\n", **headers: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "季度报告：请查收 Q3"
    message["From"] = "王小明 <a@example.com>"
    message["To"] = '"Li, Mei" <li@example.com>, b@example.com'
    message["Cc"] = "韩梅梅 <han@example.com>"
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0800"
    message["Message-ID"] = "<1@example.com>"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    return message


def plain(body: str | bytes, head: str = "", charset: str = "utf-8") -> bytes:
    data = body if isinstance(body, bytes) else body.encode(charset)
    headers = f"From: a@b.c\nSubject: s\nContent-Type: text/plain; charset={charset}{head}\n"
    return f"{headers}Content-Transfer-Encoding: 8bit\n\n".encode() + data


def test_an_address_that_was_encoded_with_its_name_is_read() -> None:
    whole = "张三 <zhang@example.com>".encode()
    raw = b"Subject: x\nFrom: =?utf-8?b?" + base64.b64encode(whole) + b"?=\n\nGood morning.\n"
    document = parse(raw)
    assert document.meta["from"] == ("张三 <zhang@example.com>",)
    assert document.text.startswith("From: 张三 <zhang@example.com>\n")


def test_headers_come_first_and_as_properties() -> None:
    mail = parse(letter())
    assert mail.text == (
        "From: 王小明 <a@example.com>\nTo: Li, Mei <li@example.com>, b@example.com\nCc: 韩梅梅 <han@example.com>\n"
        "Date: 2026-11-02T10:00:00+08:00\nSubject: 季度报告：请查收 Q3\n\n您好，\n附件是第三季度报告。"
    )
    assert (mail.title, mail.created, mail.updated, mail.mime) == (
        "季度报告：请查收 Q3",
        "2026-11-02T10:00:00+08:00",
        "2026-11-02T10:00:00+08:00",
        "message/rfc822",
    )
    assert dict(mail.meta) == {
        "author": "王小明",
        "from": ("王小明 <a@example.com>",),
        "to": ("Li, Mei <li@example.com>", "b@example.com"),
        "cc": ("韩梅梅 <han@example.com>",),
        "date": "2026-11-02T10:00:00+08:00",
        "message_id": "<1@example.com>",
    }
    assert mail.problems == () and mail.blocks == ()


@pytest.mark.parametrize("charset", ["utf-8", "gb18030", "gb2312", "big5", "utf-16", "iso-2022-jp", "koi8-r", "cp1252"])
def test_bodies_of_every_charset(charset: str) -> None:
    words = {
        "big5": "您好，這是報告。",
        "iso-2022-jp": "これは報告です。",
        "koi8-r": "Это отчёт за квартал.",
        "cp1252": "Größe und Maß, déjà vu – “so”",
    }.get(charset, "您好，这是报告。")
    encoded = base64.b64encode((words * 3).encode(charset)).decode()
    head = f"From: a@b.c\nSubject: s\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: base64\n"
    assert words * 3 in parse(f"{head}\n{encoded}\n".encode()).text


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (b"=?utf-8?b?5a2j5bqm?= =?utf-8?b?5oql5ZGK?= Q3", "季度报告 Q3"),
        (b"=?gb2312?B?xOO6ww==?=", "你好"),
        (b"=?GBK?Q?=C4=E3=BA=C3?=", "你好"),
        # One character cut in two words, as some programs do.
        (b"=?utf-8?b?5a2j5bo=?=\n =?utf-8?b?puaKpeWRig==?=", "季度报告"),
        ("你好，季度报告".encode("gbk"), "你好，季度报告"),
        ("你好 raw".encode(), "你好 raw"),
        (b"=?no-such-charset?B?xOO6ww==?=", "你好"),
        (b"=?utf-8?b?broken", "=?utf-8?b?broken"),
        (b"folded\n  over lines", "folded over lines"),
    ],
)
def test_subjects_however_encoded(subject: bytes, expected: str) -> None:
    assert parse(b"From: a@b.c\nSubject: " + subject + b"\n\nText").title == expected


def test_what_a_mail_says_of_its_charset_may_be_wrong() -> None:
    words = "您好，这是第三季度的报告，请查收。\n"
    assert words.strip() in parse(plain(words.encode("gb18030"), charset="us-ascii")).text
    assert words.strip() in parse(plain(words.encode(), charset="iso-8859-1")).text
    assert words.strip() in parse(plain(words.encode(), charset="x-unknown")).text


def test_plain_text_is_preferred_to_html() -> None:
    message = letter("Plain words of some length, which say all that there is to say.\n")
    message.add_alternative("<p>HTML words of some length, which say all that there is to say.</p>", subtype="html")
    assert "Plain words" in parse(message).text and "HTML words" not in parse(message).text


def test_html_is_read_where_there_is_nothing_else() -> None:
    table = "<table><tr><th>收入</th><th>支出</th></tr><tr><td>100</td><td>90</td></tr></table>"
    page = f"<h2>Numbers</h2><p>{'Words to read. ' * 20}</p>{table}"
    message = letter("Please view this mail in HTML.")
    message.add_alternative(page, subtype="html")
    mail = parse(message)
    assert "| 收入 | 支出 |\n| 100 | 90 |" in mail.text and "Please view" not in mail.text
    [block] = [block for block in mail.blocks if block.kind == "table"]
    assert piece(mail, block.span).startswith("| 收入") and mail.structure[0].title == "Numbers"
    assert mail.text[block.rows[1] :].startswith("| 100")


def test_files_become_sources_of_their_own() -> None:
    message = letter()
    message.add_attachment(b"PK\x03\x04", maintype="application", subtype="octet-stream", filename="报告.xlsx")
    message.add_attachment(b"%PDF-1.7 x", maintype="application", subtype="octet-stream", filename="报告.xlsx")
    message.add_attachment("a,b\n1,2\n", subtype="csv", filename="../../etc/x.csv")
    message.add_attachment(b"\x89PNG\r\n\x1a\n", maintype="image", subtype="png")
    mail = parse(message)
    assert [(file.uri, file.mime, file.data[:4]) for file in mail.attachments] == [
        (
            "/mails/one.eml#报告.xlsx",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            b"PK\x03\x04",
        ),
        ("/mails/one.eml#报告 (2).xlsx", "application/pdf", b"%PDF"),
        ("/mails/one.eml#_.._etc_x.csv", "text/csv", b"a,b\n"),
        ("/mails/one.eml#attachment-4.png", "image/png", b"\x89PNG"),
    ]
    assert {file.meta["attached_to"] for file in mail.attachments} == {"/mails/one.eml"}
    assert mail.coverage["attachments"] == mail.coverage["attachments_kept"] == 4
    assert mail.meta["attachments"][0] == "报告.xlsx"  # type: ignore[index]


def test_names_of_files_however_encoded() -> None:
    for name in (
        "filename*=utf-8''%E6%8A%A5%E5%91%8A.txt",
        'filename="=?gb2312?B?sai45g==?=.txt"',
        "filename*0*=utf-8''%E6%8A; filename*1*=%A5%E5%91%8A.txt",
    ):
        head = f"From: a@b.c\nContent-Type: application/x-any\nContent-Disposition: attachment; {name}"
        assert [file.uri for file in parse(f"{head}\n\nwords".encode()).attachments] == ["/mails/one.eml#报告.txt"]


def test_pictures_of_the_text_and_signatures_are_no_files() -> None:
    message = letter("short")
    message.add_alternative(f"<p>{'Long words. ' * 50}<img src='cid:logo'></p>", subtype="html")
    part = message.get_payload()[1]  # type: ignore[index]
    part.add_related(b"\x89PNG\r\n\x1a\n", maintype="image", subtype="png", cid="<logo>")  # type: ignore[union-attr]
    mail = parse(message)
    assert mail.attachments == () and mail.coverage["inline_pictures"] == 1


def test_forwarded_mails_are_sources_of_their_own() -> None:
    message = letter("See below.")
    message.add_attachment(letter("The inner words.", X_Inner="1"))
    [inner] = parse(message).attachments
    assert (inner.uri, inner.mime) == ("/mails/one.eml#季度报告：请查收 Q3.eml", "message/rfc822")
    assert "The inner words." in MailParser().parse(inner).text


REPLY = """同意，请安排。

On Mon, Nov 2, 2026 at 10:00 AM Wang <a@example.com> wrote:
> 您好，
>
> 附件是报告。

还有一点。

--
韩梅梅
某某公司
"""


def test_quoted_text_and_signatures_are_told_apart() -> None:
    mail = parse(plain(REPLY))
    assert quotes(mail) == [
        "On Mon, Nov 2, 2026 at 10:00 AM Wang <a@example.com> wrote:\n> 您好，\n>\n> 附件是报告。",
        "--\n韩梅梅\n某某公司",
    ]
    assert mail.coverage["quoted_chars"] == sum(map(len, quotes(mail)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("好的。\n\n-----原始邮件-----\n发件人: 甲\n正文", ["-----原始邮件-----\n发件人: 甲\n正文"]),
        ("Fine.\n\n---------- Forwarded message ---------\nFrom: x\n\nText", None),
        ("Fine.\n\nFrom: Ann <a@b.c>\nSent: Monday\nTo: Bob\nSubject: x\n\nText", None),
        ("行。\n\n发件人：甲\n发送时间：2026年\n收件人：乙\n\n正文", None),
        ("在 2026年11月2日，王小明 写道：\n> 一\n> 二\n\n好", ["在 2026年11月2日，王小明 写道：\n> 一\n> 二"]),
        ("好\n\n发自我的iPhone", ["发自我的iPhone"]),
        ("a > b\nx -- y\nFrom: here we go on\nand on", []),
        ("> only a quote", ["> only a quote"]),
    ],
)
def test_every_way_to_quote(body: str, expected: list[str] | None) -> None:
    found = quotes(parse(plain(body)))
    assert found == (expected if expected is not None else [body.partition("\n\n")[2]])


def test_a_table_in_a_quote_stays_a_table() -> None:
    table = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    page = f"<p>ok</p><blockquote><p>before</p></blockquote><p>-----Original Message-----</p>{table}<p>after</p>"
    mail = parse(f"From: a@b.c\nSubject: s\nContent-Type: text/html\n\n{page}".encode())
    assert [(block.kind, piece(mail, block.span).strip()) for block in mail.blocks] == [
        ("quote", "> before"),
        ("quote", "-----Original Message-----"),
        ("table", "| a | b |\n| 1 | 2 |"),
        ("quote", "after"),
    ]


def test_lines_that_flow_are_joined() -> None:
    mail = parse(plain("A long line that \nflows on.\nNext.\n> quoted \n-- \nsig", head="; format=flowed"))
    assert "A long line that flows on.\nNext.\n" in mail.text and quotes(mail)[-1] == "--\nsig"


def test_a_mailbox_hands_its_mails_on() -> None:
    box = b"".join(
        b"From a@b.c Mon Jan  5 10:00:00 2026\n"
        + letter(f"Mail {n}\n\nFrom here on.\n>From x 2020\n").as_bytes()
        + b"\n"
        for n in range(3)
    )
    mailbox = parse(box, "application/mbox")
    assert [file.uri for file in mailbox.attachments] == [f"/mails/one.eml#{n}.eml" for n in (1, 2, 3)]
    assert mailbox.text.splitlines()[0] == "1. 季度报告：请查收 Q3 (王小明 <a@example.com>, 2026-11-02T10:00:00+08:00)"
    assert "Mail 1\n\nFrom here on.\nFrom x 2020" in MailParser().parse(mailbox.attachments[1]).text
    assert mailbox.coverage == {"messages": 3, "messages_kept": 3}
    with pytest.raises(SourceError, match="is no mailbox"):
        parse(b"words", "application/mbox")


def test_what_cannot_be_read_says_why() -> None:
    with pytest.raises(SourceError, match=r"save the mail as \.eml"):
        parse(b"\xd0\xcf\x11\xe0", "application/vnd.ms-outlook")
    with pytest.raises(SourceError, match="begins without headers"):
        parse(b"\n\njust words")
    with pytest.raises(EmptyDocument, match="holds no text"):
        parse(b"From: a@b.c\nTo: b@b.c\n\n \n")
    encrypted = parse(
        b"From: a@b.c\nSubject: s\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nMII"
    )
    assert "encrypted" in encrypted.problems[0]
    assert parse(b"From: a@b.c\nSubject: only this\n\n").title == "only this"


def test_too_many_files_are_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.parsers.mail._MAX_ATTACHMENT_BYTES", 100)
    message = letter()
    for size in (50, 200):
        message.add_attachment(b"x" * size, maintype="text", subtype="x-any", filename=f"{size}.bin")
    mail = parse(message)
    assert [file.uri.partition("#")[2] for file in mail.attachments] == ["50.bin"]
    assert "'200.bin' of 200 bytes was left out" in mail.problems[0]


fragments = st.sampled_from(
    [
        *("From: a@b.c\n", "Subject: =?utf-8?b?5a2j?=\n", "To: (((\n", "Date: nonsense\n", "Cc: =?x?q?=", "\tfolded\n"),
        *("Content-Type: multipart/mixed; boundary=x\n", "Content-Type: multipart/alternative; boundary=x\n"),
        *(
            "--x\n",
            "--x--\n",
            "Content-Type: text/html\n",
            'Content-Type: text/plain; charset="\n',
            "Content-Type: ;=\n",
        ),
        *("Content-Type: message/rfc822\n", "\n", "<p>words", "> quoted\n", "Content-Transfer-Encoding: base64\n"),
        *("Content-Transfer-Encoding: quoted-printable\n", "=C4=E3", "xOO6ww==\n", "-- \n", "\xe4\xbd\xa0"),
        "Content-Disposition: attachment; filename*0*=utf-8''%E6; filename*1=x\n",
        *("-----Original Message-----\n", "words\n"),
    ]
)


@given(st.lists(fragments, max_size=40).map("".join))
def test_nothing_breaks_it(text: str) -> None:
    try:
        mail = parse(text.encode("latin-1"))
    except SourceError:
        return
    for block in mail.blocks:
        assert 0 <= block.span.start < block.span.end <= len(mail.text)
    assert len({file.uri for file in mail.attachments}) == len(mail.attachments)


@pytest.mark.parametrize(
    "raw",
    [
        "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(300)) + "words",
        "Content-Type: multipart/mixed; boundary=x\n\n" + "--x\n\nwords\n" * 5_000,
        "Content-Type: multipart/mixed; boundary=x\n\n" + "--x\nContent-Type: message/rfc822\n\n" * 3_000,
        "To: " + "a@b.c, " * 20_000 + "\n\nwords",
        "To: " + "(" * 50_000 + "\n\nwords",
        "Subject: " + "=?utf-8?b?5a2j?= " * 10_000 + "\n\nwords",
        "Subject: s\n\n" + "> " * 100_000,
        "Subject: s\n\n" + "> a\n\n" * 20_000,
        "Subject: s\n\n" + "From: a\n" * 20_000,
        "Subject: s\n\n" + "On a wrote\n" * 20_000,
        "Subject: s\n\n" + "_" * 200_000,
    ],
    ids=range(11),
)
def test_hostile_mails_cost_little(raw: str) -> None:
    started = time.process_time()
    with suppress(EmptyDocument):
        parse(("From: a@b.c\n" + raw).encode())
    assert time.process_time() - started < 4


@pytest.mark.parametrize("charset", ["windows-1252", "iso-8859-1"])
def test_a_mail_with_a_few_accents_is_in_the_charset_that_it_says(charset: str) -> None:
    words = "Passt März? I don’t know, it’s late."
    document = parse(plain(words.encode("cp1252"), charset=charset))
    assert words in document.text and document.problems == ()
