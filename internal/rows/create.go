package rows

import (
	"context"
	"database/sql"
)

// Create makes a table by a statement that does nothing if the table exists.
func Create(ctx context.Context, db *sql.DB, statement string) (err error) {
	for range 2 { // PostgreSQL fails if another makes it at the same moment; then it is there
		if _, err = db.ExecContext(ctx, statement); err == nil {
			return nil
		}
	}
	return err
}
