package zkpeer

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

//go:embed java/*.java
var javaSource embed.FS

// jarFolder is where Debian keeps them.
const jarFolder = "/usr/share/java"

// jars are the libraries, by the Debian packages that have them.
var jars = [][2]string{
	{"libcurator-recipes-java", "curator-recipes.jar"},
	{"libcurator-framework-java", "curator-framework.jar"},
	{"libcurator-client-java", "curator-client.jar"},
	{"libzookeeper-java", "zookeeper.jar"},
	{"libzookeeper-java", "zookeeper-jute.jar"},
	{"libguava-java", "guava.jar"},
	{"libslf4j-java", "slf4j-api.jar"},
	{"libslf4j-java", "slf4j-simple.jar"},
	{"libjackson2-core-java", "jackson-core.jar"},
}

// always are the flags of every JVM: it says warnings, and leaves no files behind.
var always = []string{"-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}

// java is the command that runs a peer from dir.
func java(dir string, flags []string, args ...string) (*exec.Cmd, error) {
	path, err := classPath(jarFolder)
	if err != nil {
		return nil, err
	}
	binary, err := tool("java")
	if err != nil {
		return nil, err
	}
	classes, err := compiled()
	if err != nil {
		return nil, err
	}
	for name, b := range classes {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return nil, err
		}
	}
	all := slices.Concat(flags, always, []string{"-cp", dir + string(filepath.ListSeparator) + path, "Main"}, args)
	return exec.Command(binary, all...), nil
}

// compiled returns the class files by name. They are kept in memory, so that no
// folder outlives the tests.
var compiled = sync.OnceValues(func() (map[string][]byte, error) {
	path, err := classPath(jarFolder)
	if err != nil {
		return nil, err
	}
	javac, err := tool("javac")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "zkpeer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := unpack(javaSource, "java", dir); err != nil {
		return nil, err
	}
	sources, err := filepath.Glob(filepath.Join(dir, "*.java"))
	if err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "classes")
	// Implicit classes would come from sources that some jars bring along.
	args := append([]string{"-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-proc:none", "-implicit:none", "-cp", path, "-d", out}, sources...)
	if said, err := exec.Command(javac, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("javac: %w\n%s", err, said)
	}
	classes := map[string][]byte{}
	err = fs.WalkDir(os.DirFS(out), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			classes[name], err = os.ReadFile(filepath.Join(out, name))
		}
		return err
	})
	return classes, err
})

// tool finds a program of the JDK.
func tool(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("Curator needs a JDK (on Debian: apt-get install default-jdk-headless): %w", err)
	}
	return path, nil
}

// classPath names all that is missing at once.
func classPath(folder string) (string, error) {
	var paths, packages []string
	for _, jar := range jars {
		path := filepath.Join(folder, jar[1])
		_, err := os.Stat(path)
		switch {
		case err == nil:
			paths = append(paths, path)
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		case !slices.Contains(packages, jar[0]):
			packages = append(packages, jar[0])
		}
	}
	if len(packages) > 0 {
		return "", fmt.Errorf("there is no Curator in %s (on Debian: apt-get install %s)", folder, strings.Join(packages, " "))
	}
	return strings.Join(paths, string(filepath.ListSeparator)), nil
}
