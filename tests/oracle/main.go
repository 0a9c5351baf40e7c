// Command oracle prints what the real k8s.io/apimachinery makes of quantities and label selectors, and which images the
// kubelet's own parser accepts (github.com/distribution/reference).
//
// The tables beside it are its output: `go run . quantities > quantities.json`, and so for selectors and images.
// Tests of function/kube compare with the tables, so that no expectation there is our own opinion.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

type table struct {
	name string
	rows func() any
}

var tables = []table{{"quantities", quantities}, {"selectors", selectors}, {"images", images}}

func main() {
	for _, t := range tables {
		if len(os.Args) == 2 && os.Args[1] == t.name {
			out := json.NewEncoder(os.Stdout)
			out.SetEscapeHTML(false)
			out.SetIndent("", " ")
			if err := out.Encode(t.rows()); err != nil {
				panic(err)
			}
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: oracle quantities|selectors|images")
	os.Exit(2)
}

// quantity is one row: the exact decimal and the value rounded up to an integer, both null where it is refused.
type quantity struct {
	Text  string  `json:"text"`
	Exact *string `json:"exact"`
	Whole *string `json:"whole"`
}

// texts are the inputs: every suffix, both exponents, signs, bare points, and what looks like a number elsewhere.
var texts = []string{
	"0", "1", "42", "007", "1.5", "-1", "-1.5", "+5", "-0", "+0.5",
	".5", "5.", "-.5", "+.5", ".", "+", "-", "", "+.", "-.", "..5", "1..5", "1.2.3", "--1", "+-1",
	"1n", "1u", "1m", "1k", "1M", "1G", "1T", "1P", "1E", "500m", "1500m", "1.5G", "100n", "0.1n", "-0.1n", "1.5n",
	"1K", "1g", "1t", "1N", "1U", "1mm", "1kk", "1y", "1Z", "1Y", "1 k",
	"1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei", "1.5Gi", "0.5Ki", "0.001Ki", "1100Gi", "-1Gi", "+1Gi", ".5Gi", "5.Gi",
	"1ki", "1mi", "1gi", "1GI", "1Zi", "1Yi", "1ni", "1ui", "1i", "1Gib", "1GiB", "1GB", "1Gi1", "Gi", "i", "Ki",
	"1e3", "1E3", "1e+3", "1E+3", "1e-3", "1E-3", "1.5e3", "1e0", "1E0", "1e03", "1e", "1e+", "1E+", "1E-", "1e3.5",
	"1e3k", "1e3Gi", "1Ee3", "e3", "E3", "1e 3", "1e-9", "1e-10", "12e6", "12E6", "1e9", "1.e3", ".5e1",
	" 1Gi", "1Gi ", "1 Gi", "1Gi\n", "\n1Gi", "1Gi\t", "\t1Gi", "1Gi\r\n", " ", "\n", "1\u00a0Gi", "1\x00",
	"1_000", "1,000", "1'000", "1,5", "0x10", "0b1", "0o7", "1f", "1L", "1d", "٣", "１", "１Gi", "1Ｇi", "²", "½", "−1",
	"NaN", "nan", "Inf", "Infinity", "-Infinity", "inf", "true", "null", "None", "abc", "80 gigs", "80gigs", "80Gi/s",
	"1099511627776", "9223372036854775807", "0.123456789", "0.000000001", "123456789.987654321",
	"0.5", "0.1Ki", "1.024k", "1000000000m", "80Gi", "141Gi", "1.03T", "720Gi", "1200Gi", "600G",
}

func quantities() any {
	rows := make([]quantity, 0, len(texts))
	for _, text := range texts {
		row := quantity{Text: text}
		if q, err := resource.ParseQuantity(text); err == nil {
			exact, whole := q.AsDec().String(), strconv.FormatInt(q.Value(), 10)
			row.Exact, row.Whole = &exact, &whole
		}
		rows = append(rows, row)
	}
	return rows
}

// match is one row: Matches is null where the selector itself is refused.
type match struct {
	Selector metav1.LabelSelector `json:"selector"`
	Labels   map[string]string    `json:"labels"`
	Matches  *bool                `json:"matches"`
}

var labelSets = []map[string]string{
	{},
	{"tier": "production"},
	{"tier": "staging"},
	{"tier": ""},
	{"Tier": "production"},
	{"region": "us-east"},
	{"tier": "production", "region": "us-east"},
	{"tier": "production", "region": "eu-west"},
	{"tier": "production", "region": "us-east", "example.org/gpu": "h200"},
}

func where(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func expressions(requirements ...metav1.LabelSelectorRequirement) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: requirements}
}

var selectorsUnderTest = []metav1.LabelSelector{
	{},
	{MatchLabels: map[string]string{"tier": "production"}},
	{MatchLabels: map[string]string{"tier": ""}},
	{MatchLabels: map[string]string{"tier": "production", "region": "us-east"}},
	{MatchLabels: map[string]string{"example.org/gpu": "h200"}},
	expressions(where("tier", metav1.LabelSelectorOpIn, "production")),
	expressions(where("tier", metav1.LabelSelectorOpIn, "staging", "production")),
	expressions(where("tier", metav1.LabelSelectorOpIn, "")),
	expressions(where("tier", metav1.LabelSelectorOpNotIn, "production")),
	expressions(where("tier", metav1.LabelSelectorOpNotIn, "production", "")),
	expressions(where("tier", metav1.LabelSelectorOpExists)),
	expressions(where("tier", metav1.LabelSelectorOpDoesNotExist)),
	expressions(where("tier", metav1.LabelSelectorOpExists), where("region", metav1.LabelSelectorOpDoesNotExist)),
	expressions(where("tier", metav1.LabelSelectorOpIn, "production"), where("tier", metav1.LabelSelectorOpNotIn, "production")),
	{
		MatchLabels:      map[string]string{"tier": "production"},
		MatchExpressions: []metav1.LabelSelectorRequirement{where("region", metav1.LabelSelectorOpNotIn, "eu-west")},
	},
	{
		MatchLabels:      map[string]string{"tier": "production"},
		MatchExpressions: []metav1.LabelSelectorRequirement{where("tier", metav1.LabelSelectorOpIn, "staging")},
	},
	expressions(where("tier", metav1.LabelSelectorOpIn)),
	expressions(where("tier", metav1.LabelSelectorOpNotIn)),
	expressions(where("tier", metav1.LabelSelectorOpExists, "production")),
	expressions(where("tier", metav1.LabelSelectorOpDoesNotExist, "production")),
	expressions(where("tier", "in", "production")),
	expressions(where("tier", "Gt", "1")),
	expressions(where("tier", "", "production")),
	expressions(where("", metav1.LabelSelectorOpExists)),
	expressions(where("not a key", metav1.LabelSelectorOpExists)),
	{MatchLabels: map[string]string{"tier": "not a value"}},
}

func selectors() any {
	rows := make([]match, 0, len(selectorsUnderTest)*len(labelSets))
	for _, given := range selectorsUnderTest {
		selector, err := metav1.LabelSelectorAsSelector(&given)
		if err != nil {
			rows = append(rows, match{Selector: given, Labels: map[string]string{}})
			continue
		}
		for _, set := range labelSets {
			matches := selector.Matches(labels.Set(set))
			rows = append(rows, match{Selector: given, Labels: set, Matches: &matches})
		}
	}
	return rows
}

// image is one row: whether a reference can be parsed as the kubelet does it.
type image struct {
	Text  string `json:"text"`
	Valid bool   `json:"valid"`
}

// hex is so many hexadecimal digits.
func hex(digits int) string { return strings.Repeat("0a", digits/2) }

// imageTexts are the inputs: hosts and ports, paths, tags and digests, alone and together, and what looks like them.
func imageTexts() []string {
	texts := []string{
		"engine", "engine:1", "vllm/vllm-openai:v0.15.0", "a/b/c/d:e", "registry.example.com/team/engine:v1",
		"registry.example.com:5000/engine:v1", "registry.example.com:5000/engine", "localhost/engine",
		"localhost:5000/engine", "10.0.0.1:5000/engine:v1", "[::1]:5000/engine:v1", "[::1]/engine", "[::1]:x/engine",
		"::1/engine", "[fe80::1%25eth0]/engine", "[]/engine", "registry:5000/engine", "registry:5000", "registry:/engine",
		"registry:http/engine", "registry.example.com:5000", "registry.example.com", "registry.example.com/",
		"UPPER/Case:v1", "UPPER/case:v1", "Upper:v1", "UPPER", "team/Engine:v1", "registry.example.com/Team/engine:v1",
		"Registry.Example.com/team/engine:v1", "engine:V1", "engine:LATEST", "UPPER:5000/engine",
		"a:b:c", "a:b/c:d", "a/b:c:d", "a/b:c/d", "a@b@c", "engine:", "engine:@", "engine@", ":v1", "@", ":", "/", "",
		"/engine", "engine/", "a//b", "a/./b", "a/../b", ".engine", "engine.", "-engine", "engine-", "_engine", "engine_",
		"a.b", "a..b", "a_b", "a__b", "a___b", "a-b", "a--b", "a---b", "a._b", "a-_b", "a.-b", "a+b", "a~b", "a!b",
		"a_b.c/d", "a-.b/c", "-a.b/c", "a.b-/c", "a..b/c", ".a/b", "a./b", "a_b:5000/c", "a_b/c", "A_B/c", "a.b.c.d/e",
		"engine:_v1", "engine:.v1", "engine:-v1", "engine:v1.", "engine:v1-", "engine:v+1", "engine:v/1", "engine:v1 ",
		" engine:v1", "engine :v1", "engine:v1\n", "engine\n", "eng ine", "engine:v1\t", "engine:é", "éngine", "engine:１",
		"٣ngine", "engine:v1\u00a0", "https://registry.example.com/engine", "oci://registry.example.com/engine:v1",
		"docker://engine", "engine:$(TAG)", "engine:${TAG}", "engine:{{ .Tag }}", "engine:latest?", "engine#v1",
		"engine:" + strings.Repeat("t", 128), "engine:" + strings.Repeat("t", 129),
		strings.Repeat("a", 247), strings.Repeat("a", 248), strings.Repeat("a", 255), "a/" + strings.Repeat("a", 253),
		"a/" + strings.Repeat("a", 254), "registry.example.com/" + strings.Repeat("a", 255),
		"registry.example.com/" + strings.Repeat("a", 256), strings.Repeat("h", 300) + ".com/engine",
		"localhost/" + strings.Repeat("a", 255), "A/" + strings.Repeat("a", 255), "A/" + strings.Repeat("a", 256),
		hex(64), hex(62), hex(66), hex(64) + ":v1", "a/" + hex(64), strings.ToUpper(hex(64)),
	}
	for _, digest := range []string{
		"sha256:" + hex(64), "sha256:" + hex(62), "sha256:" + hex(66), "sha256:" + strings.ToUpper(hex(64)), "sha256:zz",
		"sha256:" + strings.Repeat("z", 64), "sha256:", "sha256", "sha384:" + hex(96), "sha384:" + hex(64),
		"sha512:" + hex(128), "sha512:" + hex(64), "sha1:" + hex(40), "md5:" + hex(32), "blake3:" + hex(64),
		"SHA256:" + hex(64), "sha256+b64:" + hex(64), ":" + hex(64), hex(64), "sha256:" + hex(64) + ":v1",
		"sha256:" + hex(64) + "@sha256:" + hex(64), "sha256:" + hex(64) + " ",
	} {
		texts = append(texts, "engine@"+digest, "engine:v1@"+digest, "registry.example.com:5000/team/engine@"+digest)
	}
	return texts
}

func images() any {
	texts := imageTexts()
	rows := make([]image, 0, len(texts))
	for _, text := range texts {
		_, err := reference.ParseNormalizedNamed(text)
		rows = append(rows, image{Text: text, Valid: err == nil})
	}
	return rows
}
