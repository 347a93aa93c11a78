package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
)

// schemaOf writes the SQL that makes the tables of the URL's backend, unless that is only for further users, and
// gives users the rights that programs need.
func schemaOf(u *driver.URL, users []string, further bool) (string, error) {
	switch prefix := u.Text("table_prefix", ""); u.Scheme {
	case "postgres", "postgresql":
		s := pglock.Schema{Name: u.Text("schema", ""), Prefix: prefix, Logged: u.Text("durability", "") == "logged"}
		if further {
			return s.Grants(users...)
		}
		return s.SQL(users...)
	case "mysql", "mariadb":
		prefix = cmp.Or(prefix, mysqllock.DefaultTablePrefix)
		if further {
			return mysqllock.Grants(prefix, users...)
		}
		return mysqllock.Script(prefix, users...)
	}
	return "", fmt.Errorf("%s: has no tables that somebody else could make: name a database of PostgreSQL or MySQL, such as by --url", u.Scheme)
}

func newSchema(o *options) *cobra.Command {
	var users []string
	var further bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the SQL that makes a backend's tables",
		Long: `Schema prints the SQL that makes the tables and functions of a backend that is a database:
for a database whose users may not make tables, and for people who want to read it first.
Nothing is connected to; of the URL only its scheme matters, and what its options say of
the names of tables. Otherwise the tables are made when they are first needed.`,
		Example: `  interlock admin schema --url postgres://host/db --grant app | psql -1 postgres://admin@host/db
  interlock admin schema --url mysql://host/db --grant app | mariadb -h host -u admin -p db
  interlock admin schema --url postgres://host/db --only-grants --grant other | psql postgres://admin@host/db`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := o.backend(cmd.Context())
			if err != nil {
				return err
			}
			u, err := driver.ParseURL(b.url)
			if err != nil {
				return usage("%s: %w", b.source, err)
			}
			if !slices.Contains(driver.Schemes(), u.Scheme) {
				_, err := driver.OpenURL(cmd.Context(), u) // says so
				return usage("%s: %w", b.source, err)
			}
			if further && len(users) == 0 {
				return usage("--only-grants needs --grant USER")
			}
			sql, err := schemaOf(u, users, further)
			if err != nil {
				return usage("%s: %w", b.source, err)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), sql)
			return err
		},
	}
	cmd.Flags().StringArrayVar(&users, "grant", nil, "user who gets the rights that programs need; may be repeated")
	cmd.Flags().BoolVar(&further, "only-grants", false, "print the rights alone, for users who come when the tables are there")
	return cmd
}
