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

	"github.com/interlock-go/interlock/internal/testserver"
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
	binary, err := testserver.Find("java", jdk)
	if err != nil {
		return nil, err
	}
	classes, err := compiled()
	if err == nil {
		err = os.CopyFS(dir, classes)
	}
	if err != nil {
		return nil, err
	}
	all := slices.Concat(flags, always, []string{"-cp", dir + string(filepath.ListSeparator) + path, "Main"}, args)
	return exec.Command(binary, all...), nil
}

// jdk is the package of Debian that has Java.
const jdk = "default-jdk-headless"

// compiled are the class files.
var compiled = testserver.Prepared(func(dir string) (classes string, err error) {
	path, err := classPath(jarFolder)
	if err != nil {
		return "", err
	}
	javac, err := testserver.Find("javac", jdk)
	if err != nil {
		return "", err
	}
	if err := unpack(javaSource, "java", dir); err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join(dir, "*.java"))
	if err != nil {
		return "", err
	}
	classes = filepath.Join(dir, "classes")
	// Implicit classes would come from sources that some jars bring along.
	args := append([]string{"-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-proc:none", "-implicit:none", "-cp", path, "-d", classes}, sources...)
	_, err = testserver.Output(exec.Command(javac, args...))
	return classes, err
})

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

//go:embed python/*.py
var pythonSource embed.FS

// pythonBinary is the Python of the machine: Debian's kazoo belongs to no other.
const pythonBinary = "/usr/bin/python3"

// python is the command that runs a peer from dir.
func python(dir string, args ...string) (*exec.Cmd, error) {
	if _, err := testserver.Find(pythonBinary, "python3-kazoo"); err != nil {
		return nil, err
	}
	if err := unpack(pythonSource, "python", dir); err != nil {
		return nil, err
	}
	return exec.Command(pythonBinary, append([]string{"-B", filepath.Join(dir, "main.py")}, args...)...), nil
}

// unpack writes the files of a folder into dir.
func unpack(from embed.FS, folder, dir string) error {
	sub, err := fs.Sub(from, folder)
	if err != nil {
		return err
	}
	return os.CopyFS(dir, sub)
}
