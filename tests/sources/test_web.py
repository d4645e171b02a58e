"""Pages over a real socket: what is fetched, what is refused, what is said when it goes wrong."""

import gzip
import ipaddress
import ssl
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import headwater
from headwater import config as settings
from headwater.protocols import Source
from headwater.sources import _address, _fetch
from headwater.sources._address import PageError, judged, normalised, refusal
from headwater.sources._cookies import Cookies
from headwater.sources._robots import Robots
from headwater.sources.web import Unchanged, Web, WebSource, fetch, stamp_of
from headwater.testing.web_server import Page, Site
from headwater.types import Blob, Labels

LEAVE = "<html><head><title>Leave</title></head><body><h1>Leave</h1><p>Parental leave is 26 weeks.</p></body></html>"


def open_web(**given: object) -> Web:
    return Web(**{"allow_private": True, "timeout_seconds": 10.0, **given})  # type: ignore[arg-type]


def body(web: Web, url: str) -> bytes:
    found = web.fetch(url)
    assert isinstance(found, Blob)
    return found.data


# ------------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("HTTP://Example.ORG", "http://example.org/"),
        ("https://example.org:443/a#part", "https://example.org/a"),
        ("http://example.org:80/a?b=1", "http://example.org/a?b=1"),
        ("http://example.org:8080/a", "http://example.org:8080/a"),
        ("https://example.org/a?utm_source=x&id=7&fbclid=y", "https://example.org/a?id=7"),
        ("https://example.org/a b/ü", "https://example.org/a%20b/%C3%BC"),
        ("https://example.org/a%20b", "https://example.org/a%20b"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://example.org./", "https://example.org/"),
        ("https://[2606:4700:0:0::1111]/", "https://[2606:4700::1111]/"),
        ("https://example.org/?q=a+b&r=c%20d", "https://example.org/?q=a+b&r=c%20d"),
    ],
)
def test_one_page_has_one_address(given: str, wanted: str) -> None:
    assert normalised(given) == wanted
    assert normalised(wanted) == wanted


@pytest.mark.parametrize(
    "given",
    [
        "file:///etc/passwd",
        "ftp://example.org/a",
        "gopher://127.0.0.1:70/_",
        "javascript:alert(1)",
        "http://",
        "http:///path",
        "http://user:pass@example.org/",
        "http://example.org@127.0.0.1/",
        "http://exa mple.org/",
        "http://example.org:99999/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://[::1%25eth0]/",
        "http://[fe80::zz]/",
        "http://example.org\\@127.0.0.1/",
        "http://a\nb.org/",
        "http://" + "a" * 5000,
    ],
)
def test_what_is_no_address_of_the_web_is_refused(given: str) -> None:
    with pytest.raises(PageError):
        normalised(given)


PRIVATE = [
    "127.0.0.1",
    "127.8.8.8",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "169.254.169.254",
    "169.254.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "0.0.0.0",
    "0.1.2.3",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2002:c0a8:101::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
    "nonsense",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert refusal(address)
    with pytest.raises(PageError, match=r"leads to|no address"):
        judged("somewhere.example", 80, resolve=lambda host, port: [address], allow_private=False)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert refusal(address) == ""


def test_what_6to4_leads_to_decides_whatever_python_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for private in (True, False):  # since 3.12.4, and before
        monkeypatch.setattr(ipaddress.IPv6Address, "is_private", private)
        monkeypatch.setattr(ipaddress.IPv6Address, "is_global", not private)
        assert refusal("2002:808:808::1") == ""
        assert "10.0.0.1" in refusal("2002:a00:1::1")


def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    with pytest.raises(PageError, match=r"127\.0\.0\.1"):
        judged("two.example", 443, resolve=lambda host, port: ["8.8.8.8", "127.0.0.1"], allow_private=False)


def test_where_clouds_keep_their_keys_is_refused_even_where_private_pages_are_allowed() -> None:
    assert refusal("10.0.0.1", allow_private=True) == ""
    for address in ("169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"):
        assert "keys" in refusal(address, allow_private=True)


# ------------------------------------------------------------------------------------ attacks that connect


@pytest.fixture
def mostly_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.2 counts as a public address: the site is there, and also at 127.0.0.1, which must not be reached."""
    real = _address.refusal
    monkeypatch.setattr(
        _address, "refusal", lambda address, **given: "" if address == "127.0.0.2" else real(address, **given)
    )


NAMES = {"public.test": ["127.0.0.2"], "inside.test": ["127.0.0.1"], "other.test": ["127.0.0.2"]}


def guarded(names: dict[str, list[str]] | None = None, **given: object) -> Web:
    known = names or NAMES
    return Web(resolve=lambda host, port: known[host], timeout_seconds=10.0, **given)  # type: ignore[arg-type]


def targets(port: int) -> list[str]:
    return [
        f"http://127.0.0.1:{port}/secret",
        f"http://inside.test:{port}/secret",
        f"//127.0.0.1:{port}/secret",
        f"http://[::ffff:127.0.0.1]:{port}/secret",
        f"http://[::1]:{port}/secret",
        f"http://0.0.0.0:{port}/secret",
        f"http://2130706433:{port}/secret",
        f"http://0x7f000001:{port}/secret",
        f"http://017700000001:{port}/secret",
        f"http://127.1:{port}/secret",
        f"http://１２７.0.0.1:{port}/secret",
        f"http://127.0.0.1.:{port}/secret",
        f"http://public.test@127.0.0.1:{port}/secret",
        f"http://public.test\\@127.0.0.1:{port}/secret",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://[64:ff9b::7f00:1]/secret",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "ftp://127.0.0.1/secret",
    ]


@pytest.mark.parametrize("number", range(20))
def test_no_way_leads_inside(site: Site, mostly_private: None, number: int) -> None:
    target = targets(site.port)[number]
    site.pages["/secret"] = Page(b"the keys")
    site.pages["/away"] = Page(status=302, headers={"Location": target.encode().decode("latin-1")})
    with pytest.raises(PageError):
        guarded().fetch(target)
    with pytest.raises(PageError):
        guarded().fetch(site.url("/away", "public.test"))
    assert "/secret" not in site.paths()
    assert set(site.local) <= {"127.0.0.2"} and "/away" in site.paths()


def test_a_public_page_is_fetched_by_number_and_asked_for_by_name(site: Site, mostly_private: None) -> None:
    site.html("/page", LEAVE)
    assert b"26 weeks" in body(guarded(), site.url("/page", "public.test"))
    assert set(site.local) == {"127.0.0.2"}
    assert {host for host, _, _ in site.asked} == {f"public.test:{site.port}"}


def test_a_name_that_changes_its_address_between_looking_and_connecting_gains_nothing(
    site: Site, mostly_private: None
) -> None:
    site.html("/page", LEAVE)
    answers = iter([["127.0.0.2"], ["127.0.0.1"], ["127.0.0.1"]])
    web = Web(resolve=lambda host, port: next(answers), timeout_seconds=10.0)
    with pytest.raises(PageError, match=r"127\.0\.0\.1"):  # robots.txt came from outside, the page would not
        web.fetch(site.url("/page", "rebind.test"))
    assert site.paths() == ["/robots.txt"] and site.local == ["127.0.0.2"]


def test_every_hop_is_judged_anew(site: Site, mostly_private: None) -> None:
    site.html("/end", LEAVE)
    site.pages["/1"] = Page(status=301, headers={"Location": site.url("/2", "other.test")})
    site.pages["/2"] = Page(status=302, headers={"Location": "/end#part"})
    found = guarded().fetch(site.url("/1", "public.test"))
    assert isinstance(found, Blob)
    assert found.uri == site.url("/1", "public.test")
    assert found.meta["final_url"] == site.url("/end", "other.test")


# ------------------------------------------------------------------------------------------ cookies


def test_a_page_that_expects_its_cookie_back_gets_it(site: Site) -> None:
    def door(told: dict[str, str]) -> Page:
        if "seen=1" in told.get("cookie", ""):
            return Page(LEAVE.encode(), headers={"Content-Type": "text/html"})
        return Page(status=302, headers={"Location": "/page"}, cookies=("seen=1; Path=/; HttpOnly", "lang=de"))

    site.pages["/page"] = door
    web = open_web()
    assert b"26 weeks" in body(web, site.url("/page"))
    told = [headers.get("cookie") for _, path, headers in site.asked if path == "/page"]
    assert told == [None, "seen=1; lang=de"]
    site.asked.clear()
    assert b"26 weeks" in body(web, site.url("/page"))  # nothing was kept from the fetch before
    assert [headers.get("cookie") for _, _, headers in site.asked] == [None, "seen=1; lang=de"]


def test_no_other_host_is_told_a_cookie(site: Site, mostly_private: None) -> None:
    site.html("/end", LEAVE)
    cookies = ("own=1; Path=/", "wide=1; Path=/; Domain=test", "theirs=1; Path=/; Domain=other.test")
    site.pages["/1"] = Page(status=302, headers={"Location": site.url("/2", "other.test")}, cookies=cookies)
    site.pages["/2"] = Page(status=302, headers={"Location": site.url("/end", "public.test")})
    guarded().fetch(site.url("/1", "public.test"))
    told = [(host.partition(":")[0], path, headers.get("cookie", "")) for host, path, headers in site.asked]
    assert [one for one in told if one[2]] == [("public.test", "/end", "own=1; wide=1")]


@pytest.mark.parametrize(
    ("cookie", "then", "told"),
    [
        ("a=1", "https://x.example/in/other", "a=1"),
        ("a=1", "https://x.example/", ""),
        ("a=1; path=/in", "https://x.example/in", "a=1"),
        ("a=1; Path=/in", "https://x.example/inner", ""),
        ("a=1; Path=/", "https://sub.x.example/", ""),
        ("a=1; Path=/; Domain=.x.example", "https://x.example/", "a=1"),
        ("a=1; Path=/; Domain=.x.example", "https://sub.x.example/", ""),
        ("a=1; Path=/; Domain=y.example", "https://x.example/", ""),
        ("a=1; Path=/; Domain=y.example", "https://y.example/", ""),
        ("a=1; Path=/; Domain=ample", "https://x.example/", ""),
        ("a=1; Path=/; Secure", "https://x.example/", "a=1"),
        ("a=1; Path=/; Secure", "http://x.example/", ""),
        ("a=1; Path=/; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "https://x.example/", "a=1"),
        ("a=1; Path=/; Max-Age=0", "https://x.example/", ""),
        ("a=1; Path=/; Max-Age=-1", "https://x.example/", ""),
        ("a=1; Path=/; Expires=Thu, 01-Jan-1970 00:00:00 GMT", "https://x.example/", ""),
        ("a=1; Path=/; Expires=whenever", "https://x.example/", "a=1"),
        ('a="b=c"; Path=/', "https://x.example/", 'a="b=c"'),
        ("a=\u00e9; Path=/", "https://x.example/", ""),
        ("a=1\x01; Path=/", "https://x.example/", ""),
        ("nothing", "https://x.example/in/", ""),
        ("=1", "https://x.example/in/", ""),
        ("a=" + "x" * 5000, "https://x.example/in/", ""),
    ],
)
def test_the_rules_of_cookies(cookie: str, then: str, told: str) -> None:
    cookies = Cookies()
    cookies.keep("https://x.example/in/page", (cookie,))
    assert cookies.header(then).get("Cookie", "") == told


def test_a_cookie_is_set_anew_and_taken_back() -> None:
    cookies = Cookies()
    here = "http://x.example/in/page"
    cookies.keep(here, ("a=1", "b=1; Path=/", "a=2", "safe=1; Secure"))
    assert cookies.header(here) == {"Cookie": "a=2; b=1"}
    cookies.keep(here, ("a=; Max-Age=0", *(f"c{n}=1" for n in range(100))))
    assert "a=" not in cookies.header(here)["Cookie"] and cookies.header(here)["Cookie"].count("=") == 50


# ------------------------------------------------------------------------------------------- robots


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow: /private", "/private/x", False),
        ("User-agent: *\nDisallow: /private", "/public", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: headwater\nDisallow: /b", "/a", True),
        ("User-agent: headwater/1.0 (x)\nDisallow: /a", "/a", False),
        ("User-agent: other\nUser-agent: headwater\nDisallow: /a\n", "/a", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?z", True),
        ("User-agent: *\nDisallow: /*/edit", "/w/1/edit?x", False),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /caf%C3%A9", "/caf%c3%a9/x", False),
        ("Disallow: /", "/a", True),
        ("# comment\nuser-agent : * # all\ndisallow : /a # b", "/a", False),
    ],
)
def test_what_robots_txt_says(text: str, path: str, allowed: bool) -> None:
    assert Robots(text, agent="headwater").allows(f"https://example.org{path}") is allowed


def test_a_hostile_robots_txt_takes_no_time() -> None:
    rules = Robots("User-agent: *\nDisallow: /" + "*a" * 2000 + "$", agent="headwater")
    began = time.perf_counter()
    assert rules.allows("https://example.org/" + "a" * 1900 + "b")
    assert time.perf_counter() - began < 10.0  # who tries everything takes for ever


def test_robots_txt_is_asked_once_and_respected(site: Site) -> None:
    site.html("/open", LEAVE)
    site.html("/closed", LEAVE)
    site.pages["/robots.txt"] = Page(b"User-agent: headwater\nDisallow: /closed\n")
    web = open_web()
    assert b"26 weeks" in body(web, site.url("/open"))
    with pytest.raises(PageError, match="robots"):
        web.fetch(site.url("/closed"))
    assert site.paths() == ["/robots.txt", "/open"]
    assert "headwater/" in site.asked[0][2]["user-agent"]
    assert b"26 weeks" in body(open_web(robots=False), site.url("/closed"))


def test_a_redirect_into_what_is_closed_is_not_followed(site: Site) -> None:
    site.html("/closed", LEAVE)
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /closed\n")
    site.pages["/away"] = Page(status=302, headers={"Location": "/closed"})
    with pytest.raises(PageError, match="robots"):
        open_web().fetch(site.url("/away"))


def test_a_site_that_fails_to_tell_its_rules_is_left_alone(site: Site) -> None:
    site.html("/open", LEAVE)
    site.pages["/robots.txt"] = Page(status=503)
    with pytest.raises(PageError, match="robots"):
        open_web().fetch(site.url("/open"))


# ------------------------------------------------------------------------------------ limits and errors


def test_what_goes_wrong_is_said(site: Site) -> None:
    site.pages["/gone"] = Page(status=410)
    site.pages["/busy"] = Page(status=503)
    site.pages["/loop"] = Page(status=302, headers={"Location": "/loop"})
    site.pages["/odd"] = Page(b"x", headers={"Content-Encoding": "br"})
    site.pages["/torn"] = Page(b"no gzip", headers={"Content-Encoding": "gzip"})
    web = open_web()
    for path, words, again in (
        ("/missing", "no such page", False),
        ("/gone", "gone for good", False),
        ("/busy", "503", True),
        ("/loop", "10 times", False),
        ("/odd", "'br'", False),
        ("/torn", "unpacked", True),
    ):
        with pytest.raises(PageError, match=words) as caught:
            web.fetch(site.url(path))
        assert caught.value.again is again
    assert web.tried(site.url("/gone")).status == 410  # type: ignore[union-attr]
    with pytest.raises(PageError, match="cannot be reached") as caught:
        web.fetch("http://127.0.0.1:1/")
    assert caught.value.again
    with pytest.raises(PageError, match="resolved"):
        open_web().fetch("http://no-such-host.invalid/")


def test_a_page_that_is_too_large_is_refused_whether_it_says_so_or_not(site: Site) -> None:
    site.pages["/said"] = Page(b"x" * 5000)
    site.pages["/unsaid"] = Page(b"x" * 5000, declare=False)
    site.pages["/packed"] = Page(gzip.compress(b"x" * 5_000_000), headers={"Content-Encoding": "gzip"})
    for path in ("/said", "/unsaid", "/packed"):
        with pytest.raises(PageError, match="max_bytes"):
            open_web(max_bytes=1000 if path != "/packed" else 100_000).fetch(site.url(path))


def test_packed_pages_are_unpacked(site: Site) -> None:
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    site.pages["/gzip"] = Page(gzip.compress(LEAVE.encode()), headers={"Content-Encoding": "gzip"})
    site.pages["/zlib"] = Page(zlib.compress(LEAVE.encode()), headers={"Content-Encoding": "deflate"})
    site.pages["/raw"] = Page(raw.compress(LEAVE.encode()) + raw.flush(), headers={"Content-Encoding": "deflate"})
    web = open_web()
    assert {body(web, site.url(path)) for path in ("/gzip", "/zlib", "/raw")} == {LEAVE.encode()}


def test_a_server_that_drips_does_not_hold_on(site: Site) -> None:
    site.pages["/drip"] = Page(b"x" * 1000, drip=0.05)
    began = time.monotonic()
    with pytest.raises(PageError, match="within") as caught:
        open_web(timeout_seconds=0.6, robots=False).fetch(site.url("/drip"))
    assert caught.value.again and time.monotonic() - began < 5


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for site.test that it signed itself, with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "site.test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("site.test")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "site.pem"
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, *form) + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def safe_site(certificate: Path) -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    made = Site(context)
    yield made
    made.close()


def test_a_certificate_is_checked_against_the_name_not_the_address(
    safe_site: Site, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    safe_site.html("/page", LEAVE)
    web = open_web(resolve=lambda host, port: ["127.0.0.1"])
    with pytest.raises(PageError, match="certificate"):
        web.fetch(f"https://site.test:{safe_site.port}/page")
    trusting = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(_fetch, "_context", lambda: trusting)
    assert b"26 weeks" in body(web, f"https://site.test:{safe_site.port}/page")
    with pytest.raises(PageError, match="certificate"):
        web.fetch(f"https://other.test:{safe_site.port}/page")


# ----------------------------------------------------------------------------------------- documents


def test_what_comes_with_a_page(site: Site) -> None:
    site.pages["/zh"] = Page(
        "<title>年假</title><p>员工每年享有十五天带薪年假。".encode("gb18030"),
        headers={
            "Content-Type": "text/html; charset=GB18030",
            "ETag": '"a1"',
            "Last-Modified": "Wed, 01 Oct 2025 10:00:00 GMT",
        },
    )
    found = open_web().fetch(site.url("/zh"))
    assert isinstance(found, Blob)
    assert found.mime == "text/html" and found.modified == "2025-10-01T10:00:00+00:00"
    assert found.meta == {"charset": "gb18030", "etag": '"a1"', "last_modified": "Wed, 01 Oct 2025 10:00:00 GMT"}
    assert stamp_of(found) and not stamp_of(replace(found, meta={}))


def test_what_a_file_is_is_told_by_its_bytes(site: Site) -> None:
    site.pages["/a"] = Page(b"%PDF-1.7 ...", headers={"Content-Type": "text/html"})
    site.pages["/b.md"] = Page(b"# Title\n\n## Part\n\ntext", headers={"Content-Type": "text/plain"})
    site.pages["/c"] = Page(b"just a line", headers={"Content-Type": "text/html; charset=utf-8"})
    web = open_web()
    mimes = [web.fetch(site.url(path)).mime for path in ("/a", "/b.md", "/c")]  # type: ignore[union-attr]
    assert mimes == ["application/pdf", "text/markdown", "text/html"]


def test_an_unchanged_page_is_asked_for_and_not_sent(site: Site) -> None:
    def page(asked: dict[str, str]) -> Page:
        same = asked.get("if-none-match") == '"v1"'
        return Page(
            b"" if same else LEAVE.encode(), 304 if same else 200, {"ETag": '"v1"', "Content-Type": "text/html"}
        )

    site.pages["/page"] = page
    web = open_web()
    first = web.fetch(site.url("/page"))
    assert isinstance(first, Blob)
    assert web.fetch(site.url("/page"), stamp=stamp_of(first)) == Unchanged(url=site.url("/page"))
    [change] = WebSource([site.url("/page")], web=web, known=lambda _: stamp_of(first)).scan()
    assert change.payload is None and change.stamp == stamp_of(first)


def test_a_web_source_is_a_source(site: Site) -> None:
    url = site.html("/page", LEAVE)
    source = WebSource([url, url + "#part"], web=open_web(), owner="li", collection="kb", labels=Labels(tags=("x",)))
    assert isinstance(source, Source)
    [change] = source.scan()
    assert (change.uri, change.owner, change.collection, change.labels.tags) == (url, "li", "kb", ("x",))
    assert change.payload is not None and change.payload.data == LEAVE.encode()
    assert source.read(url).data == LEAVE.encode()
    assert fetch(url, private_addresses=True).data == LEAVE.encode()
    with pytest.raises(PageError, match="this machine itself"):
        fetch(url)


def test_pages_are_fetched_ahead_a_few_at_a_time(site: Site) -> None:
    urls = [site.html(f"/{number}", LEAVE) for number in range(40)]
    web = open_web(parallel=4)
    web.expect(urls)
    assert [web.read(url).uri for url in urls] == urls
    assert len([path for path in site.paths() if path != "/robots.txt"]) == 40
    web.close()


# ------------------------------------------------------------------------------------------ front door


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[headwater.KnowledgeBase]:
    told = settings.load(tmp_path, flags={"web.allow_private": True, "web.timeout_seconds": 10.0})
    with headwater.open(tmp_path / "kb", config=told) as opened:
        yield opened


def test_a_page_is_added_found_and_not_worked_on_again(kb: headwater.KnowledgeBase, site: Site) -> None:
    pages = {"text": LEAVE}

    def page(asked: dict[str, str]) -> Page:
        tag = f'"{len(pages["text"])}"'
        same = asked.get("if-none-match") == tag
        sent = b"" if same else pages["text"].encode()
        return Page(sent, 304 if same else 200, {"ETag": tag, "Content-Type": "text/html"})

    site.pages["/leave"] = page
    url = site.url("/leave")
    report = kb.add(url + "?utm_source=mail#top", tags=["hr"])
    assert (report.added, report.failed) == (1, ())
    [hit] = kb.search("parental leave")
    assert hit.uri == url and hit.title == "Leave"
    assert kb.record(url).tags == ("hr",)
    again = kb.add(url, tags=["hr"])
    assert (again.added, again.updated, again.unchanged) == (0, 0, 1)
    relabelled = kb.add(url, tags=["law"])  # the server says unchanged; what is said of it is new
    assert relabelled.updated == 1 and kb.record(url).tags == ("law",)
    pages["text"] = LEAVE.replace("26", "28 whole")
    assert kb.add(url, tags=["law"]).updated == 1
    assert "28 whole weeks" in kb.document(url).text


def test_a_page_that_cannot_be_fetched_fails_with_the_reason(kb: headwater.KnowledgeBase, site: Site) -> None:
    good = site.html("/good", LEAVE)
    report = kb.add(good, site.url("/missing"))
    assert report.added == 1
    [failure] = report.failed
    assert failure.uri == site.url("/missing") and "404" in failure.reason
    assert site.paths().count("/missing") == 1


def test_private_pages_are_refused_by_default(tmp_path: Path, site: Site) -> None:
    url = site.html("/page", LEAVE)
    with headwater.open(tmp_path / "kb") as kb:
        [failure] = kb.add(url).failed
    assert "web.allow_private" in failure.reason and site.asked == []


def test_titles(kb: headwater.KnowledgeBase, site: Site) -> None:
    """Item 4: the person's title, else the page's own, else the address."""
    named, bare = site.html("/named", LEAVE), site.html("/bare", "<p>Only a sentence stands here, no title.</p>")
    kb.add(named, bare)
    assert kb.record(named).title == "Leave" and kb.record(bare).title == bare
    kb.add_html(LEAVE, url="https://example.org/x", title="My own")
    assert kb.record("https://example.org/x").title == "My own"


def test_a_page_that_a_browser_sends_is_not_fetched(kb: headwater.KnowledgeBase) -> None:
    url = "https://intranet.example/leave?utm_source=x#top"
    report = kb.add_html(LEAVE, url=url, client_source="extension", selection="26 weeks", labels=Labels(tags=("hr",)))
    assert report.added == 1
    record = kb.record("https://intranet.example/leave")
    assert record.meta["client_source"] == "extension" and record.meta["selection"] == "26 weeks"
    assert record.tags == ("hr",) and record.title == "Leave"
    again = kb.add_html(LEAVE, url=url, client_source="extension", selection="26 weeks", labels=Labels(tags=("hr",)))
    assert again.unchanged == 1


def test_a_site_is_asked_for_its_rules_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.html("/open", LEAVE)
    site.pages["/robots.txt"] = Page(status=503)
    web = open_web()
    for _ in range(2):
        with pytest.raises(PageError, match="later") as told:
            web.fetch(site.url("/open"))
        assert told.value.again
    assert site.paths() == ["/robots.txt"]
    now = time.monotonic()
    monkeypatch.setattr("headwater.sources.web.time.monotonic", lambda: now + 61)
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /closed\n")
    assert b"26 weeks" in body(web, site.url("/open")) and b"26 weeks" in body(web, site.url("/open"))
    assert site.paths().count("/robots.txt") == 2
    monkeypatch.setattr("headwater.sources.web.time.monotonic", lambda: now + 61 + 25 * 3600)
    body(web, site.url("/open"))
    assert site.paths().count("/robots.txt") == 3
