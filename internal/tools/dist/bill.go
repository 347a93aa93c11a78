package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBill writes the modules that a binary says it is made of, in the format of CycloneDX. There is
// no time in it and no random number, so that it is the same each time.
func writeBill(to, binary, version string, known []module) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	licences := map[string]string{}
	for _, m := range known {
		licences[m.Path] = m.licence
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		Type: cdx.ComponentTypeApplication, BOMRef: info.Main.Path, Name: info.Main.Path, Version: version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}}
	components := []cdx.Component{component("std", info.GoVersion, "", licences["std"])}
	for _, m := range info.Deps {
		if m.Replace != nil {
			return fmt.Errorf("%s is replaced by %s", m.Path, m.Replace.Path)
		}
		licence := licences[m.Path]
		switch ours := strings.HasPrefix(m.Path, "github.com/interlock-go/"); {
		case ours:
			components = append(components, component(m.Path, version, "", "Apache-2.0"))
		case licence == "":
			return fmt.Errorf("%s is in %s, and in no list of modules", m.Path, binary)
		default:
			components = append(components, component(m.Path, m.Version, m.Sum, licence))
		}
	}
	bom.Components = &components
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return f.Close()
}

func component(path, version, sum, licence string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{
		Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: licence}}},
	}
	if hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(hash) > 0 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", hash)}}
	}
	return c
}
